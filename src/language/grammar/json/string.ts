import { LRUCache } from 'lru-cache';
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
import { anyMatch, type Spelling } from '../regex.ts';
import type { SchemaReader } from './keywords.ts';

/** Characters that a JSON string contains without an escape. */
const UNESCAPED: CodePointRange[] = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0x10ffff],
];
const ONE_UNIT: CodePointRange[] = [[0, 0xffff]];
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

const quoted = (content: Expression): Expression => sequence([literal('"'), content, literal('"')]);

const anyCharacter = jsonSpelling(ANY_CHARACTER);
const anyUnit = jsonSpelling(ONE_UNIT);

export const anyString: Expression = quoted(repeat(anyCharacter, 0, null));

/**
 * Strings with a length between two bounds. With an upper bound, only characters of one UTF-16 unit occur: for others,
 * JSON Schema (which counts code points) and JavaScript's validators (which count units) disagree on the length.
 */
function boundedString(minimum: number, maximum: number | null): Expression {
  return quoted(repeat(maximum === null ? anyCharacter : anyUnit, minimum, maximum));
}

/** Cached, because patterns recur: each format has one, and the properties of a schema are alike. */
const patterns = new LRUCache<string, Expression>({ max: 64 });

function patternString(pattern: string): Expression {
  let known = patterns.get(pattern);
  if (!known) {
    known = quoted(anyMatch(pattern, jsonSpelling));
    patterns.set(pattern, known);
  }
  return known;
}

const DATE =
  '\\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)';
const TIME = '(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)';
const EMAIL = '^[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+)*@(?:[A-Za-z0-9][A-Za-z0-9-]*\\.)+[A-Za-z]{2,}$';

/** Formats that are enforced if the schema has no pattern. Every text that matches the pattern has the format. */
const PATTERN_OF_FORMAT: ReadonlyMap<string, string> = new Map([
  ['date', `^${DATE}$`],
  ['time', `^${TIME}$`],
  ['date-time', `^${DATE}T${TIME}$`],
  ['uuid', '^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'],
  ['email', EMAIL],
  ['uri', '^https?://(?:[a-z0-9]+(?:-[a-z0-9]+)*\\.)+[a-z]{2,}(?:/[A-Za-z0-9._~/?=&%-]*)?$'],
]);

/**
 * The pattern that zod gives e-mail addresses (`z.regexes.email.source`), written out: the engine's threads start without
 * zod. EMAIL matches a subset of it.
 */
const ZOD_EMAIL =
  "^(?:[A-Za-z0-9_'+\\-]+\\.)*[A-Za-z0-9_'+\\-]*[A-Za-z0-9_+-]@(?:[A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$";

const SUPPORTED_PATTERNS: ReadonlyMap<string, string> = new Map([[ZOD_EMAIL, EMAIL]]);

/** Strings with the length, pattern or format of a schema; `any` if it names none. */
export function stringWithin(reader: SchemaReader, any: Expression): Expression {
  const minimum = reader.count('minLength');
  const maximum = reader.count('maxLength');
  const format = reader.string('format');
  const ownPattern = reader.string('pattern');
  const formatPattern = format === null ? null : PATTERN_OF_FORMAT.get(format);
  if (ownPattern === null && formatPattern === undefined)
    reader.refuse('format', 'is not one of date, time, date-time, uuid, email, uri; use a pattern');
  const pattern = ownPattern === null ? formatPattern : (SUPPORTED_PATTERNS.get(ownPattern) ?? ownPattern);
  const bounded = minimum !== null || maximum !== null;
  if (!pattern) return bounded ? boundedString(minimum ?? 0, maximum) : any;
  if (bounded)
    reader.refuse(
      minimum === null ? 'maxLength' : 'minLength',
      'cannot be combined with a pattern or format: put the length into the pattern',
    );
  return patternString(pattern);
}
