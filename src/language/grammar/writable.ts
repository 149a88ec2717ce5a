import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import {
  type CodePointRange,
  characters,
  type GrammarSource,
  intersection,
  NOTHING,
  withLeaves,
} from './expression.ts';
import { withoutUnproductive } from './productive.ts';

/** The texts of a grammar that a vocabulary without some bytes can write. */
export class Writable {
  readonly #missing: ReadonlySet<number>;
  readonly #characters: CodePointRange[] = [];

  /** Null if the vocabulary has all bytes, so that it can write every text. */
  static of({ missingBytes }: Pick<Tokenizer, 'missingBytes'>): Writable | null {
    return missingBytes.size === 0 ? null : new Writable(missingBytes);
  }

  private constructor(missing: ReadonlySet<number>) {
    this.#missing = missing;
    const isMissing = Array.from({ length: 256 }, (_, byte) => missing.has(byte));
    const canWrite = (code: number) => {
      if (code < 0x80) return !isMissing[code];
      // The last six bits of each byte after the first.
      const continuations = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
      for (let bits = 6 * (continuations - 1); bits >= 0; bits -= 6)
        if (isMissing[0x80 | ((code >> bits) & 0x3f)]) return false;
      const mark = [0xc0, 0xe0, 0xf0][continuations - 1] as number;
      return !isMissing[mark | (code >> (6 * continuations))];
    };
    let first = 0;
    for (let code = 0; code <= 0x110000; code++) {
      const isSurrogate = code >= 0xd800 && code < 0xe000;
      if (code < 0x110000 && !isSurrogate && canWrite(code)) continue;
      if (code > first) this.#characters.push([first, code - 1]);
      first = code + 1;
    }
  }

  /** The part of the language that can be written; an empty choice if there is no such part. */
  partOf({ start, rules }: GrammarSource): GrammarSource {
    const part = (expression: GrammarSource['start']) =>
      withLeaves(expression, (leaf) => {
        if (leaf.kind === 'literal') return this.#canWrite(leaf.text) ? leaf : NOTHING;
        if (leaf.kind === 'rule') return leaf;
        const ranges = intersection(leaf.ranges, this.#characters);
        return ranges.length === 0 ? NOTHING : characters(ranges);
      });
    return withoutUnproductive({
      start: part(start),
      rules: new Map(Array.from(rules, ([name, body]) => [name, part(body)])),
    });
  }

  /** Such as `0x04, 0x06`. */
  get missing(): string {
    return Array.from(this.#missing, (byte) => `0x${byte.toString(16).padStart(2, '0')}`).join(', ');
  }

  #canWrite(text: string): boolean {
    return !Buffer.from(text).some((byte) => this.#missing.has(byte));
  }
}
