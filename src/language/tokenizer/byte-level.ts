import type { Writing } from './bpe.ts';

/** Printable stand-ins for the bytes in a byte-level `tokenizer.json`, as in GPT-2. */
export const BYTE_SYMBOLS: readonly string[] = makeByteSymbols();

const byteOfSymbol = new Map(BYTE_SYMBOLS.map((symbol, byte) => [symbol, byte]));

function makeByteSymbols(): string[] {
  const printable = (byte: number) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printable(byte) ? byte : next++));
}

/** A vocabulary with a symbol for each byte, as of GPT-2, Llama 3 and Qwen. */
export function byteLevel(vocab: Record<string, number>): Writing {
  const missingBytes = new Set(
    BYTE_SYMBOLS.flatMap((symbol, byte) => (Object.hasOwn(vocab, symbol) ? [] : [byte])),
  );
  return {
    missingBytes,
    symbols(word) {
      let symbols = '';
      for (const byte of Buffer.from(word)) if (!missingBytes.has(byte)) symbols += BYTE_SYMBOLS[byte];
      return symbols;
    },
    bytes: (symbols) => Uint8Array.from(symbols, (symbol) => byteOfSymbol.get(symbol)!),
    whole: new Map(),
    fallsBack: false,
  };
}
