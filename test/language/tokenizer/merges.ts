import { BYTE_SYMBOLS } from '../../../src/language/tokenizer/byte-level.ts';

export type Merge = [left: string, right: string];

interface Word {
  symbols: string[];
  weight: number;
}

/**
 * Learns byte-pair merges (Sennrich, Haddow and Birch 2016, arXiv:1508.07909) from weighted words: again and
 * again the pair of neighbours with the greatest weight becomes one symbol; among equals, the first in the order
 * of the alphabet.
 */
export function learnMerges(wordWeights: ReadonlyMap<string, number>, count: number): Merge[] {
  const words: Word[] = [...wordWeights].map(([word, weight]) => ({ symbols: byteSymbols(word), weight }));
  const merges: Merge[] = [];
  while (merges.length < count) {
    const best = heaviestPair(words);
    if (!best) break;
    merges.push(best);
    for (const word of words) word.symbols = applyMerge(word.symbols, best);
  }
  return merges;
}

export function byteSymbols(text: string): string[] {
  return [...Buffer.from(text, 'utf8')].map((byte) => BYTE_SYMBOLS[byte]!);
}

export function applyMerge(symbols: string[], [left, right]: Merge): string[] {
  const merged: string[] = [];
  for (let index = 0; index < symbols.length; index++) {
    const found = symbols[index] === left && symbols[index + 1] === right;
    merged.push(found ? left + right : symbols[index]!);
    if (found) index++;
  }
  return merged;
}

function heaviestPair(words: Word[]): Merge | null {
  const weights = new Map<string, number>();
  for (const { symbols, weight } of words)
    for (let index = 0; index + 1 < symbols.length; index++) {
      const pair = `${symbols[index]} ${symbols[index + 1]}`;
      weights.set(pair, (weights.get(pair) ?? 0) + weight);
    }
  let best: string | null = null;
  let bestWeight = 0;
  for (const [pair, weight] of weights)
    if (weight > bestWeight || (weight === bestWeight && best !== null && pair < best)) {
      best = pair;
      bestWeight = weight;
    }
  if (best === null) return null;
  const [left, right] = best.split(' ');
  return [left!, right!];
}
