import { z } from 'zod';
import { requestLimits } from './limits.ts';

/** A text of at most `maximum` UTF-16 code units. */
export const text = (maximum: number = requestLimits.text) =>
  z.string().max(maximum, {
    error: ({ input }) => `has ${sizeOf(input)} characters; the maximum is ${maximum}`,
  });

/** A list of at most `maximum` elements. A longer one is refused before its elements are checked. */
export const list = <Item extends z.ZodType>(item: Item, maximum: number = requestLimits.list) =>
  z.array(item).max(maximum, tooManyElements(maximum));

const tooManyElements = (maximum: number) => ({
  error: ({ input }: { input?: unknown }) => `has ${sizeOf(input)} elements; the maximum is ${maximum}`,
});

/** Like `list`, for numbers, such as a million token ids: faster. Of a long list, only the first wrong element is reported. */
export const numberList = (element: z.ZodNumber, maximum: number): z.ZodArray<z.ZodNumber> =>
  new NumberArray({ type: 'array', element, maximum }).max(maximum, tooManyElements(maximum));

/**
 * A copy of a schema, faster for values that it accepts: `shortcut` returns a parsed copy of a value, as the schema
 * would, or `z.INVALID` to leave it to the schema. Zod compiles the schema when it is first needed.
 */
export function withShortcut<Schema extends z.ZodType>(
  schema: Schema,
  shortcut: (value: unknown) => z.output<Schema> | typeof z.INVALID,
): Schema {
  let compiled: Schema | undefined;
  return z.withParser(schema, (value) => {
    const parsed = shortcut(value);
    if (parsed !== z.INVALID) return parsed;
    compiled ??= z.compile(schema);
    const result = compiled.safeParse(value);
    return result.success ? result.data : z.INVALID;
  });
}

/** A number used in computations, bounded so that weights stay in their range. */
export const boundedNumber = () => z.number().min(-requestLimits.number).max(requestLimits.number);

/** Token ids. */
export const tokenList = (maximum: number = requestLimits.tokens) =>
  numberList(z.number().int().min(0).max(requestLimits.maxToken), maximum);

/**
 * Token ids that a response contained. Whether they exist in the model is checked later, by the reader of the choices.
 */
export const answeredTokens = (maximum: number = requestLimits.tokens) =>
  numberList(z.number().int(), maximum);

interface RecordBounds {
  /** Most entries. Default 1024. */
  entries?: number;
  /** Most characters of a name. Default 1024. */
  name?: number;
  /** The message for too many entries. Default: how many there are and how many are allowed. */
  tooMany?: string;
}

/** An object whose names the caller chooses. One with too many entries is refused before they are checked. */
export const record = <Value extends z.ZodType>(
  value: Value,
  { entries = requestLimits.entries, name = requestLimits.name, tooMany }: RecordBounds = {},
) =>
  z
    .preprocess(
      (entriesByName: Record<string, z.input<Value>>, context) => {
        if (hasPrototypeName(entriesByName)) {
          const message = '__proto__ is not allowed as a name; use another';
          context.addIssue({ code: 'custom', path: ['__proto__'], input: entriesByName, message });
          return z.NEVER;
        }
        const count = countOf(entriesByName);
        if (count <= entries) return entriesByName;
        const message = tooMany ?? `has ${count} entries; the maximum is ${entries}`;
        context.addIssue({
          code: 'too_big',
          origin: 'object',
          maximum: entries,
          input: entriesByName,
          message,
        });
        return z.NEVER;
      },
      z.record(text(name), value),
    )
    .meta({ maxProperties: entries });

/** An object that clients may send as long as it is empty; `reason` says why. */
export const emptyObject = (reason: string) =>
  record(z.unknown(), { entries: 0, tooMany: `must be empty or absent: ${reason}` });

/** An object of any form, with at most `characters` characters of JSON. */
export const json = (
  characters: number = requestLimits.json,
  { entries = characters, name = characters }: RecordBounds = {},
) =>
  record(z.unknown(), { entries, name }).superRefine((value, context) => {
    const length = JSON.stringify(value).length;
    if (length > characters)
      context.addIssue({
        ...{ code: 'too_big', origin: 'string', maximum: characters, input: value },
        message: `has ${length} characters of JSON; the maximum is ${characters}`,
      });
  });

function sizeOf(value: unknown): number {
  return typeof value === 'string' || Array.isArray(value) ? value.length : 0;
}

/** `z.record` would silently drop `__proto__`, which in most objects is not a name but the prototype. */
const hasPrototypeName = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, '__proto__');

function countOf(value: unknown): number {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value).length : 0;
}

/** A longer list reports only its first wrong element, because asking the schema about each takes ten times as long. */
const maxShortList = 256;

/** A class, because a list of `z.withParser` is copied: that takes up to twice as long. */
interface NumberArray extends z.ZodArray<z.ZodNumber> {}

interface NumberArrayDefinition extends z.core.$ZodArrayDef<z.ZodNumber> {
  /** A longer list is refused for its length alone, by `z.array`. */
  maximum: number;
}

const NumberArray = z.core.$constructor<NumberArray, NumberArrayDefinition>('NumberArray', (schema, def) => {
  z.ZodArray.init(schema, def);
  const parse = schema._zod.parse;
  const { element, maximum } = def;
  const isValid = elementCheck(element);
  schema._zod.parse = (payload, context) => {
    const { value } = payload;
    if (!Array.isArray(value) || value.length > maximum) return parse(payload, context);
    const wrong = value.findIndex((item) => !isValid(item));
    if (wrong === -1) return payload;
    if (value.length <= maxShortList) return parse(payload, context);
    for (const issue of element.safeParse(value[wrong]).error?.issues ?? [])
      payload.issues.push({ ...issue, path: [wrong], input: value[wrong] });
    return payload;
  };
});

/** A check that accepts what a schema of numbers accepts, but only asks the schema about its own bounds. */
function elementCheck(element: z.ZodNumber): (item: unknown) => boolean {
  const { minValue, maxValue, isInt } = element;
  const [minimum, maximum] = [minValue ?? Number.NEGATIVE_INFINITY, maxValue ?? Number.POSITIVE_INFINITY];
  const bounds = new Set([minimum, maximum].filter((bound) => element.safeParse(bound).success));
  return (item) =>
    typeof item === 'number' &&
    ((item > minimum && item < maximum && (!isInt || Number.isInteger(item))) || bounds.has(item));
}

/**
 * An optional field of a request body. JSON `null` means absent everywhere in the interface, because deployed clients
 * send every unset option as `null`.
 */
export const optional = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().transform((value): z.output<Schema> | undefined => value ?? undefined);

/** An optional field with a default, which also replaces `null`. */
export const withDefault = <Schema extends z.ZodType>(schema: Schema, value: z.output<Schema>) =>
  schema.nullish().transform((sent): z.output<Schema> => sent ?? value);
