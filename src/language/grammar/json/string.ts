import { LRUCache } from 'lru-cache';
import {
  type CodePointRange,
  charactersOf,
  choiceOf,
  type Expression,
  literal,
  repeat,
  sequence,
} from '../expression.ts';
import { ANY_CHARACTER, intersection, type Spelling } from '../regex/character-set.ts';
import { anyMatch } from '../regex/language.ts';

/** Characters that stand in a JSON string as they are. */
const UNESCAPED: CodePointRange[] = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0x10ffff],
];
const ONE_UNIT: CodePointRange[] = [[0, 0xffff]];
const ESCAPED: number[] = [0x22, 0x5c, ...Array.from({ length: 0x20 }, (_, code) => code)];

/** Characters as `JSON.stringify` writes them inside a string: each has one spelling. */
export const jsonSpelling: Spelling = (ranges) => {
  const alternatives: Expression[] = [];
  const plain = intersection(ranges, UNESCAPED);
  if (plain.length > 0) alternatives.push(charactersOf(plain));
  for (const code of ESCAPED)
    if (ranges.some(([first, last]) => first <= code && code <= last))
      alternatives.push(literal(JSON.stringify(String.fromCharCode(code)).slice(1, -1)));
  return choiceOf(alternatives);
};

const quoted = (content: Expression): Expression => sequence(literal('"'), content, literal('"'));

const anyCharacter = jsonSpelling(ANY_CHARACTER);
const anyUnit = jsonSpelling(ONE_UNIT);

export const anyString: Expression = quoted(repeat(anyCharacter, 0, null));

/**
 * Strings of a length between two bounds. Where there is an upper one, only characters of one UTF-16 unit occur: of
 * others JSON Schema (which counts code points) and JavaScript's validators (which count units) count different
 * lengths.
 */
export function boundedString(minimum: number, maximum: number | null): Expression {
  return quoted(repeat(maximum === null ? anyCharacter : anyUnit, minimum, maximum));
}

/** Patterns come again: formats have one each, and the properties of a schema are alike. */
const patterns = new LRUCache<string, Expression>({ max: 64 });

export function patternString(pattern: string): Expression {
  let known = patterns.get(pattern);
  if (!known) {
    known = quoted(anyMatch(pattern, jsonSpelling));
    patterns.set(pattern, known);
  }
  return known;
}
