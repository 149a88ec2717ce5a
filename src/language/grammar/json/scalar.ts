import { z } from 'zod';
import type { Expression } from '../expression.ts';
import type { SchemaReader } from './keywords.ts';
import { compactLayout } from './layout.ts';
import { anyNumber, integerBetween, numberBetween } from './number.ts';
import { boundedString, patternString } from './string.ts';

const DATE =
  '\\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)';
const TIME = '(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)';
const EMAIL = '^[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+)*@(?:[A-Za-z0-9][A-Za-z0-9-]*\\.)+[A-Za-z]{2,}$';

/** Formats that are enforced where no pattern stands beside them; every text of the pattern has the format. */
const PATTERN_OF_FORMAT: ReadonlyMap<string, string> = new Map([
  ['date', `^${DATE}$`],
  ['time', `^${TIME}$`],
  ['date-time', `^${DATE}T${TIME}$`],
  ['uuid', '^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'],
  ['email', EMAIL],
  ['uri', '^https?://(?:[a-z0-9]+(?:-[a-z0-9]+)*\\.)+[a-z]{2,}(?:/[A-Za-z0-9._~/?=&%-]*)?$'],
]);

/** zod's pattern of an e-mail address looks ahead; ours has the same sense and is a part of it. */
const FOLLOWABLE_PATTERN: ReadonlyMap<string, string> = new Map([[z.regexes.email.source, EMAIL]]);

export function stringWithin(reader: SchemaReader): Expression {
  const minimum = reader.count('minLength');
  const maximum = reader.count('maxLength');
  const format = reader.string('format');
  const given = reader.string('pattern');
  const formatPattern = format === null ? null : PATTERN_OF_FORMAT.get(format);
  if (given === null && formatPattern === undefined)
    reader.refuse('format', 'is not among date, time, date-time, uuid, email, uri; a pattern can say it');
  const pattern = given === null ? formatPattern : (FOLLOWABLE_PATTERN.get(given) ?? given);
  const bounded = minimum !== null || maximum !== null;
  if (!pattern) return bounded ? boundedString(minimum ?? 0, maximum) : compactLayout.anyKey;
  if (bounded)
    reader.refuse(
      minimum === null ? 'maxLength' : 'minLength',
      'stands beside a pattern or format: let the pattern say it',
    );
  return patternString(pattern);
}

export function numberWithin(reader: SchemaReader, type: 'number' | 'integer'): Expression {
  const bounds = ['minimum', 'exclusiveMinimum', 'maximum', 'exclusiveMaximum'].map((name) =>
    reader.number(name),
  );
  const [minimum = null, above = null, maximum = null, below = null] = bounds;
  const expression =
    type === 'integer'
      ? integerBetween(
          largest(
            minimum === null ? null : Math.ceil(minimum),
            above === null ? null : Math.floor(above) + 1,
          ),
          smallest(
            maximum === null ? null : Math.floor(maximum),
            below === null ? null : Math.ceil(below) - 1,
          ),
        )
      : realBetween(reader, { minimum, above, maximum, below });
  return expression ?? reader.refuse(minimum === null ? 'maximum' : 'minimum', 'leaves no number');
}

type RealBounds = Record<'minimum' | 'above' | 'maximum' | 'below', number | null>;

function realBetween(
  reader: SchemaReader,
  { minimum, above, maximum, below }: RealBounds,
): Expression | null {
  const low = largest(minimum, above);
  const high = smallest(maximum, below);
  if (low === null && high === null) return anyNumber;
  for (const [bound, keyword, strict] of [
    [low, 'minimum', 'exclusiveMinimum'],
    [high, 'maximum', 'exclusiveMaximum'],
  ] as const)
    if (bound !== null && !Number.isSafeInteger(bound))
      reader.refuse(reader.has(keyword) ? keyword : strict, 'is enforced for whole numbers only');
  return numberBetween({
    minimum: low ?? -Number.MAX_SAFE_INTEGER,
    maximum: high ?? Number.MAX_SAFE_INTEGER,
    aboveMinimum: low !== null && low === above,
    belowMaximum: high !== null && high === below,
  });
}

function largest(left: number | null, right: number | null): number | null {
  if (left === null || right === null) return left ?? right;
  return Math.max(left, right);
}

function smallest(left: number | null, right: number | null): number | null {
  if (left === null || right === null) return left ?? right;
  return Math.min(left, right);
}
