import {
  ANY_CHARACTER,
  type CodePointRange,
  characters,
  choice,
  type Expression,
  intersection,
  literal,
  repeat,
  sequence,
} from '../expression.ts';
import type { Spelling } from '../regex.ts';

/** Characters that a JSON string contains without an escape. */
const UNESCAPED: CodePointRange[] = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0x10ffff],
];
/** Characters of one UTF-16 unit. */
export const ONE_UNIT: CodePointRange[] = [[0, 0xffff]];
const ESCAPED: number[] = [0x22, 0x5c, ...Array.from({ length: 0x20 }, (_, code) => code)];

/** Characters as `JSON.stringify` writes them in a string, with one spelling each. */
export const jsonSpelling: Spelling = (ranges) => {
  const alternatives: Expression[] = [];
  const plain = intersection(ranges, UNESCAPED);
  if (plain.length > 0) alternatives.push(characters(plain));
  for (const code of ESCAPED)
    if (ranges.some(([first, last]) => first <= code && code <= last))
      alternatives.push(literal(JSON.stringify(String.fromCharCode(code)).slice(1, -1)));
  return choice(alternatives);
};

/** A JSON string of this content. */
export const quoted = (content: Expression): Expression => sequence([literal('"'), content, literal('"')]);

const anyCharacter = jsonSpelling(ANY_CHARACTER);
const anyUnit = jsonSpelling(ONE_UNIT);

/**
 * From this length on, characters are counted apart: in an automaton that counts, each takes some nodes. Not with a
 * longer least length: the way there is searched while sampling.
 */
const minCounted = 500;
const farthestEnd = 50;
/** No text is so long. */
const longest = 2 ** 31 - 1;

/** A number of such characters between two bounds. */
export const runOf = (character: Expression, minimum: number, maximum: number | null): Expression =>
  maximum === null || maximum < minCounted || minimum > farthestEnd
    ? repeat(character, minimum, maximum)
    : {
        kind: 'counted',
        body: repeat(character, minimum, null),
        maximum: Math.min(maximum, longest),
      };

export const anyString: Expression = quoted(repeat(anyCharacter, 0, null));

/**
 * Strings with a length between two bounds. With an upper bound, only characters of one UTF-16 unit occur: for others,
 * JSON Schema (which counts code points) and JavaScript's validators (which count units) disagree on the length.
 */
export function boundedString(minimum: number, maximum: number | null): Expression {
  return quoted(runOf(maximum === null ? anyCharacter : anyUnit, minimum, maximum));
}
