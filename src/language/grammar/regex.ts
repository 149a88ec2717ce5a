import { LanguageError } from '../error.ts';
import {
  ANY_CHARACTER,
  type CodePointRange,
  characters,
  choice,
  complement,
  type Expression,
  repeat,
  rule,
  sequence,
} from './expression.ts';
import { escapedCharacters, LINE_ENDS, single, WORD } from './regex-characters.ts';
import { SourceReader } from './source-reader.ts';

/** How a set of characters is written in the text: unchanged, or with the escapes of a JSON string. */
export type Spelling = (ranges: readonly CodePointRange[]) => Expression;

export const plainSpelling: Spelling = characters;

/** Texts that the expression matches as a whole. Anchors at its ends have no effect. */
export function wholeMatch(source: string, spelling: Spelling): Expression {
  return textsOf(new PatternParser(source, spelling).parse(), []);
}

/** Texts that contain a match of the expression, as in JSON Schema's `pattern`. */
export function anyMatch(source: string, spelling: Spelling): Expression {
  const alternatives = new PatternParser(source, spelling).parse();
  return textsOf(alternatives, [repeat(spelling(ANY_CHARACTER), 0, null)]);
}

/** What must hold between two characters. Expressions call it as a rule. */
export type Assertion =
  | { kind: 'start' }
  | { kind: 'end' }
  /** `body`: what the text after here begins with, or what the text before here is as a whole. */
  | { kind: 'ahead' | 'behind'; isNegative: boolean; body: Expression };

/** Texts that contain a match, or match as a whole, and the assertions within the expression, by their rules. */
export function patternWithAssertions(
  source: string,
  isWhole: boolean,
): { expression: Expression; assertions: ReadonlyMap<string, Assertion> } {
  const assertions = new Map<string, Assertion>();
  const alternatives = new PatternParser(source, plainSpelling, assertions).parse();
  return { expression: textsOf(alternatives, isWhole ? [] : [ANY_TEXT]), assertions };
}

/** `around`: what is before and after an alternative where it has no anchor. */
function textsOf(alternatives: readonly Alternative[], around: readonly Expression[]): Expression {
  return choice(
    alternatives.map(({ parts, start, end }) =>
      sequence([...(start ? [] : around), ...parts, ...(end ? [] : around)]),
    ),
  );
}

const ANY_TEXT = repeat(characters(ANY_CHARACTER), 0, null);
const maxGroupNameLength = 100;

/** An alternative of an expression, and whether it has anchors. */
interface Alternative {
  parts: readonly Expression[];
  start: boolean;
  end: boolean;
}

const unanchored = (...parts: Expression[]): Alternative[] => [{ parts, start: false, end: false }];

/** Parses an ECMAScript regular expression. Syntax that a grammar does not support is refused by name. */
class PatternParser {
  readonly #reader: SourceReader;
  readonly #spelling: Spelling;
  readonly #assertions: Map<string, Assertion> | null;

  /** `assertions` gets those that are found; null: they are refused. */
  constructor(source: string, spelling: Spelling, assertions: Map<string, Assertion> | null = null) {
    const shown = JSON.stringify(source.length > 200 ? `${source.slice(0, 200)}…` : source);
    this.#spelling = spelling;
    this.#assertions = assertions;
    this.#reader = new SourceReader(
      source,
      'A regular expression',
      (what, index) =>
        new LanguageError(
          'regex_unsupported',
          `Regular expression ${shown}: ${what} is not supported, near character ${index}. Supported are ` +
            'literals, classes, groups, |, *, +, ?, {m,n}, ^, $, \\b and look-around.',
        ),
    );
  }

  parse(): Alternative[] {
    const alternatives = this.#alternatives();
    if (!this.#reader.atEnd) this.#reader.refuse('")" without "("');
    return alternatives;
  }

  #alternatives(): Alternative[] {
    const alternatives = this.#sequence();
    while (this.#reader.take('|')) alternatives.push(...this.#sequence());
    return alternatives;
  }

  /** One alternative, or a group's alternatives if the group is the whole sequence, since they may have anchors. */
  #sequence(): Alternative[] {
    const items: Alternative[][] = [];
    while (!this.#reader.atEnd && !/[|)]/.test(this.#reader.peek()))
      items.push(this.#quantified(this.#atom()));
    if (items.length === 1) return items[0]!;
    const start = isAnchor(items[0], 'start');
    if (start) items.shift();
    const end = isAnchor(items.at(-1), 'end');
    if (end) items.pop();
    return [{ parts: items.map((item) => this.#withoutAnchors(item)), start, end }];
  }

  #withoutAnchors(alternatives: Alternative[]): Expression {
    return choice(
      alternatives.map(({ parts, start, end }) => {
        const all = [
          ...(start ? [this.#assert({ kind: 'start' }, 'an anchor elsewhere than at the beginning')] : []),
          ...parts,
          ...(end ? [this.#assert({ kind: 'end' }, 'an anchor elsewhere than at the end')] : []),
        ];
        return all.length === 1 ? all[0]! : sequence(all);
      }),
    );
  }

  #assert(assertion: Assertion, what: string): Expression {
    if (!this.#assertions) return this.#reader.refuse(`${what}, for white space or a tag,`);
    const name = `assertion ${this.#assertions.size}`;
    this.#assertions.set(name, assertion);
    return rule(name);
  }

  /** Whether a word begins or ends here; or with `isNegative` that none does. */
  #boundary(isNegative: boolean): Expression {
    const [before, after] = [sequence([ANY_TEXT, characters(WORD)]), characters(WORD)];
    const both = (isBefore: boolean, isAfter: boolean) =>
      sequence([
        this.#assert({ kind: 'behind', isNegative: !isBefore, body: before }, 'a word boundary'),
        this.#assert({ kind: 'ahead', isNegative: !isAfter, body: after }, 'a word boundary'),
      ]);
    return choice([both(true, isNegative), both(false, !isNegative)]);
  }

  #quantified(item: Alternative[]): Alternative[] {
    const reader = this.#reader;
    const start = reader.index;
    const counts = reader.repetitionSign() ?? this.#counts();
    if (!counts) return item;
    reader.take('?');
    reader.checkRepetition(...counts, start);
    return unanchored(repeat(this.#withoutAnchors(item), ...counts));
  }

  #counts(): [minimum: number, maximum: number | null] | null {
    const counted = /^\{(\d+)(,(\d*))?\}/.exec(this.#reader.ahead(24));
    if (!counted) return null;
    this.#reader.index += counted[0].length;
    const minimum = Number(counted[1]);
    if (counted[2] === undefined) return [minimum, minimum];
    return [minimum, counted[3] === '' ? null : Number(counted[3])];
  }

  #atom(): Alternative[] {
    const reader = this.#reader;
    const character = reader.next();
    switch (character) {
      case '(':
        return this.#group();
      case '[':
        return this.#set(reader.characterClass(() => this.#classMember()));
      case '.':
        return this.#set(complement(LINE_ENDS));
      case '^':
        return [{ parts: [], start: true, end: false }];
      case '$':
        return [{ parts: [], start: false, end: true }];
      case '\\':
        if (reader.take('b')) return unanchored(this.#boundary(false));
        if (reader.take('B')) return unanchored(this.#boundary(true));
        return this.#set(escapedCharacters(reader, false));
      case '*':
      case '+':
      case '?':
        return reader.refuse(`"${character}" with nothing to repeat`);
      default:
        return this.#set([single(character)]);
    }
  }

  #set(ranges: readonly CodePointRange[]): Alternative[] {
    return unanchored(this.#spelling(ranges));
  }

  #group(): Alternative[] {
    const reader = this.#reader;
    if (reader.take('?')) {
      const look = /^<?[=!]/.exec(reader.ahead(2))?.[0];
      if (look) {
        reader.index += look.length;
        return unanchored(this.#lookAround(look));
      }
      const name = /^(:|<[A-Za-z_$][\w$]*>)/.exec(reader.ahead(maxGroupNameLength))?.[0];
      if (!name) return reader.refuse(`the group (?${reader.ahead(2)}`);
      reader.index += name.length;
    }
    return reader.group(() => this.#alternatives());
  }

  #lookAround(look: string): Expression {
    const reader = this.#reader;
    const isNegative = look.endsWith('!');
    const before = this.#assertions?.size;
    const alternatives = reader.group(() => this.#alternatives());
    if (!look.startsWith('<')) {
      const body = this.#withoutAnchors(alternatives);
      return this.#assert({ kind: 'ahead', isNegative, body }, `the group (?${look}`);
    }
    const texts = alternatives.map(({ parts, start, end }) => {
      if (end || this.#assertions?.size !== before) reader.refuse('an assertion within a look-behind');
      return sequence([...(start ? [] : [ANY_TEXT]), ...parts]);
    });
    return this.#assert({ kind: 'behind', isNegative, body: choice(texts) }, `the group (?${look}`);
  }

  #classMember(): readonly CodePointRange[] {
    const character = this.#reader.next();
    return character === '\\' ? escapedCharacters(this.#reader, true) : [single(character)];
  }
}

/** Whether an item is only this anchor, perhaps in a group. */
const isAnchor = (item: Alternative[] | undefined, which: 'start' | 'end'): boolean =>
  item?.length === 1 &&
  item[0]!.parts.length === 0 &&
  item[0]!.start === (which === 'start') &&
  item[0]!.end === (which === 'end');
