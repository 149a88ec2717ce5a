import type { Marks } from '../../chat/prompt-parts.ts';
import { LanguageError } from '../../error.ts';

/** Unicode's block of 32 noncharacters: they are for uses like this one and stand in no text that is exchanged. */
const noncharacters = Array.from({ length: 32 }, (_, index) => String.fromCharCode(0xfdd0 + index));

/** As `tojson(ensure_ascii=true)` writes a character. */
const escapeOf = (character: string) => `\\u${character.charCodeAt(0).toString(16)}`;

/**
 * Makes the texts of a caller harmless to a template that sees them as they are: where a special token could begin
 * or end in one it is broken up by a noncharacter, which `restore` takes out again after the rendering.
 */
export class PlainText {
  readonly marks: Marks;
  readonly #guard: string;
  readonly #beginnings: RegExp;
  readonly #endings: RegExp;

  /** `everything`: JSON of all that the template sees, so that none of it holds the noncharacters chosen. */
  constructor(special: ReadonlyMap<string, number>, everything: string) {
    const taken = new Set<string>();
    for (const [character] of everything.matchAll(/[\ufdd0-\ufdef]|\\ufd[de][0-9a-f]/g)) taken.add(character);
    const [open, close, guard] = noncharacters.filter(
      (character) => !taken.has(character) && !taken.has(escapeOf(character)),
    );
    if (open === undefined || close === undefined || guard === undefined)
      throw new LanguageError(
        'too_many_noncharacters',
        'The texts of the request use up the noncharacters U+FDD0 to U+FDEF, which a template needs some of; leave three of them out.',
      );
    this.marks = { open, close };
    this.#guard = guard;
    const beginnings = new Set<string>();
    const endings = new Set<string>();
    for (const text of special.keys()) {
      const second = text.slice(1, 2);
      beginnings.add(`${escapeForPattern(text.slice(0, 1))}(?=${escapeForPattern(second)})`);
      for (let start = 1; start < text.length; start++) endings.add(escapeForPattern(text.slice(start)));
    }
    this.#beginnings = new RegExp([...beginnings].join('|'), 'g');
    this.#endings = new RegExp(`^(?:${[...endings].join('|')})`);
  }

  text(text: string): string {
    const broken = text.replace(this.#beginnings, `$&${this.#guard}`);
    return this.#endings.test(text) ? this.#guard + broken : broken;
  }

  /** Every string of a JSON value, its keys among them. */
  value(value: unknown): unknown {
    if (typeof value === 'string') return this.text(value);
    if (Array.isArray(value)) return value.map((item) => this.value(item));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [this.text(key), this.value(item)]));
  }

  restore(text: string): string {
    return text.replaceAll(this.#guard, '').replaceAll(escapeOf(this.#guard), '');
  }

  /** Whether a piece of a mark is left in a text: a template has taken it apart. */
  hasBrokenMark(text: string): boolean {
    return [this.marks.open, this.marks.close].some(
      (mark) => text.includes(mark) || text.includes(escapeOf(mark)),
    );
  }
}

const escapeForPattern = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
