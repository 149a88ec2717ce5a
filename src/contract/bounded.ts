import { z } from 'zod';
import { requestLimits } from './limits.ts';

/** A text of at most `maximum` UTF-16 code units. */
export const text = (maximum: number = requestLimits.text) =>
  z.string().max(maximum, {
    error: ({ input }) => `has ${sizeOf(input)} characters, and ${maximum} is the most; make it shorter`,
  });

/** A list of at most `maximum` elements. A longer one is refused before its elements are checked. */
export const list = <Item extends z.ZodType>(item: Item, maximum: number = requestLimits.list) =>
  z.array(item).max(maximum, tooManyElements(maximum));

const tooManyElements = (maximum: number) => ({
  error: ({ input }: { input?: unknown }) =>
    `has ${sizeOf(input)} elements, and ${maximum} is the most; send fewer`,
});

/** Like `list`, for numbers, of which there may be very many. */
export const numberList = (item: z.ZodNumber, maximum: number) =>
  numberArray(item, maximum).max(maximum, tooManyElements(maximum));

/** A number used in computations, bounded so that weights stay in their range. */
export const figure = () => z.number().min(-requestLimits.figure).max(requestLimits.figure);

/** Token ids. */
export const tokenList = (maximum: number = requestLimits.tokens) =>
  numberList(z.number().int().min(0).max(requestLimits.largestToken), maximum);

/**
 * Token ids that a response contained. Whether they exist in the model is checked later, by the reader of the choices.
 */
export const answeredTokens = (maximum: number = requestLimits.tokens) =>
  numberList(z.number().int(), maximum);

export interface RecordBounds {
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
      (given: Record<string, z.input<Value>>, context) => {
        if (hasPrototypeName(given)) {
          const message = '__proto__ cannot be a name here; take another';
          context.addIssue({ code: 'custom', path: ['__proto__'], input: given, message });
          return z.NEVER;
        }
        const count = countOf(given);
        if (count <= entries) return given;
        const message = tooMany ?? `has ${count} entries, and ${entries} is the most; send fewer`;
        context.addIssue({ code: 'too_big', origin: 'object', maximum: entries, input: given, message });
        return z.NEVER;
      },
      z.record(text(name), value),
    )
    .meta({ maxProperties: entries });

/** An object that clients may send as long as it is empty; `reason` says why. */
export const emptyObject = (reason: string) =>
  record(z.unknown(), { entries: 0, tooMany: `must be empty, or left out: ${reason}` });

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
        message: `has ${length} characters of JSON, and ${characters} is the most; make it smaller`,
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

/** A longer list is checked without calling the element's schema for each number, which takes ten times as long. */
const few = 256;

interface NumberArray extends z.ZodArray<z.ZodNumber> {}

interface NumberArrayDefinition extends z.core.$ZodArrayDef<z.ZodNumber> {
  /** A longer list is refused for its length alone, by `z.array`. */
  longest: number;
}

const NumberArray = z.core.$constructor<NumberArray, NumberArrayDefinition>('NumberArray', (schema, def) => {
  z.ZodArray.init(schema, def);
  const parse = schema._zod.parse;
  const { element, longest } = def;
  const isFine = finely(element);
  schema._zod.parse = (payload, context) => {
    const { value } = payload;
    if (!Array.isArray(value) || value.length <= few || value.length > longest)
      return parse(payload, context);
    const wrong = value.findIndex((item) => !isFine(item));
    if (wrong === -1) return payload;
    const { error } = element.safeParse(value[wrong]);
    for (const issue of error?.issues ?? [])
      payload.issues.push({ ...issue, path: [wrong], input: value[wrong] });
    return payload;
  };
});

/** A check that accepts what a schema of numbers accepts, but only asks the schema about its own bounds. */
function finely(element: z.ZodNumber): (item: unknown) => boolean {
  const { minValue, maxValue, isInt } = element;
  const [least, most] = [minValue ?? Number.NEGATIVE_INFINITY, maxValue ?? Number.POSITIVE_INFINITY];
  const bounds = new Set([least, most].filter((bound) => element.safeParse(bound).success));
  return (item) =>
    typeof item === 'number' &&
    ((item > least && item < most && (!isInt || Number.isInteger(item))) || bounds.has(item));
}

/**
 * A list of numbers, such as a million token ids. Reads like `z.array`, only faster. Of a long list, only the first
 * wrong element is reported.
 */
export const numberArray = (element: z.ZodNumber, longest: number): z.ZodArray<z.ZodNumber> =>
  new NumberArray({ type: 'array', element, longest });

/**
 * An optional field of a request body. JSON `null` means absent everywhere in the interface, because deployed clients
 * send every unset option as `null`.
 */
export const optional = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().transform((value): z.output<Schema> | undefined => value ?? undefined);

/** An optional field with a default, which also replaces `null`. */
export const withDefault = <Schema extends z.ZodType>(schema: Schema, value: z.output<Schema>) =>
  schema.nullish().transform((given): z.output<Schema> => given ?? value);
