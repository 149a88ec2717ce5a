import { LanguageError } from '../error.ts';
import { type CodePointRange, complement } from './expression.ts';
import { maxDepth, maxRepetitions, maxSourceLength } from './limits.ts';

/** The characters of escapes such as `\n`, by their letter. */
export const CONTROL_ESCAPES: ReadonlyMap<string, number> = new Map(
  Object.entries({ n: 0x0a, r: 0x0d, t: 0x09, f: 0x0c, v: 0x0b, 0: 0x00 }),
);

/** Reads the source of a regular expression or a grammar, character by character. */
export class SourceReader {
  /** The next character; counted in code points from 0. */
  index = 0;
  readonly #characters: string[];
  readonly #errorAt: (what: string, index: number) => LanguageError;
  #depth = 0;

  /**
   * `kind` names the source in the message if it is too long. `errorAt` makes the error for anything else that is wrong.
   */
  constructor(source: string, kind: string, errorAt: (what: string, index: number) => LanguageError) {
    if (source.length > maxSourceLength)
      throw new LanguageError(
        'grammar_too_large',
        `${kind} has ${source.length} characters. The maximum is ${maxSourceLength}.`,
      );
    this.#characters = [...source];
    this.#errorAt = errorAt;
  }

  get atEnd(): boolean {
    return this.index >= this.#characters.length;
  }

  /** A character ahead; empty at the end. */
  peek(ahead = 0): string {
    return this.#characters[this.index + ahead] ?? '';
  }

  /** The next characters, at most `count`. */
  ahead(count: number): string {
    return this.#characters.slice(this.index, this.index + count).join('');
  }

  next(): string {
    return this.#characters[this.index++] ?? this.refuse('an end in the middle of an expression');
  }

  /** Skips a text (of characters in the basic plane) if it comes next. */
  take(text: string): boolean {
    for (let at = 0; at < text.length; at++) if (this.peek(at) !== text[at]) return false;
    this.index += text.length;
    return true;
  }

  /** Reads characters while they match `kind`, at most `limit`. */
  takeWhile(kind: RegExp, limit = Number.POSITIVE_INFINITY): string {
    const start = this.index;
    while (this.index - start < limit && kind.test(this.peek())) this.index++;
    return this.#characters.slice(start, this.index).join('');
  }

  /** Whether only white space comes before an index on its line. */
  startsLine(index: number): boolean {
    let before = index - 1;
    while (before >= 0 && /[ \t]/.test(this.#characters[before]!)) before--;
    return before < 0 || this.#characters[before] === '\n';
  }

  /** Line and column of an index, counted from 1. */
  positionOf(index: number): { line: number; column: number } {
    const before = this.#characters.slice(0, index);
    return {
      line: 1 + before.filter((character) => character === '\n').length,
      column: index - before.lastIndexOf('\n'),
    };
  }

  refuse(what: string, index = this.index): never {
    throw this.#errorAt(what, index);
  }

  /** The alternatives of a group, whose "(" has been read. */
  group<Result>(alternatives: () => Result): Result {
    const start = this.index - 1;
    if (++this.#depth > maxDepth) this.refuse(`groups nested more than ${maxDepth} deep`, start);
    const inner = alternatives();
    if (!this.take(')')) this.refuse('"(" without ")"', start);
    this.#depth--;
    return inner;
  }

  /** The characters of a class, whose "[" has been read. `member` reads one member, which may itself be a class. */
  characterClass(member: () => readonly CodePointRange[]): readonly CodePointRange[] {
    const start = this.index - 1;
    const negated = this.take('^');
    const ranges: CodePointRange[] = [];
    while (!this.take(']')) {
      const from = this.index;
      const first = member();
      if (this.peek() !== '-' || (this.peek(1) || ']') === ']') {
        ranges.push(...first);
        continue;
      }
      this.index++;
      const last = member();
      const [low, high] = [onlyCode(first), onlyCode(last)];
      if (low === null || high === null) ranges.push(...first, [0x2d, 0x2d], ...last);
      else if (low > high) this.refuse('a character range that runs backwards', from);
      else ranges.push([low, high]);
    }
    const members = negated ? complement(ranges) : ranges;
    if (members.length === 0) this.refuse('an empty character class', start);
    return members;
  }

  /** The counts of `*`, `+` or `?`; null if none of them comes next. */
  repetitionSign(): [minimum: number, maximum: number | null] | null {
    if (this.take('*')) return [0, null];
    if (this.take('+')) return [1, null];
    return this.take('?') ? [0, 1] : null;
  }

  /** Refuses counts that cannot be followed. */
  checkRepetition(minimum: number, maximum: number | null, start: number): void {
    if (maximum !== null && maximum < minimum)
      this.refuse(`a repetition {${minimum},${maximum}} that ends before it begins`, start);
    if (Math.max(minimum, maximum ?? 0) > maxRepetitions)
      this.refuse(`a repetition of more than ${maxRepetitions}`, start);
  }
}

const onlyCode = (ranges: readonly CodePointRange[]): number | null =>
  ranges.length === 1 && ranges[0]![0] === ranges[0]![1] ? ranges[0]![0] : null;
