import { z } from 'zod';

/** A list of more numbers than this is looked through before its schema is asked, which takes ten times as long. */
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

/** Tells the numbers that a schema takes: those between its bounds without asking it, others by what it says. */
function finely(element: z.ZodNumber): (item: unknown) => boolean {
  const { minValue, maxValue, isInt } = element;
  const [least, most] = [minValue ?? Number.NEGATIVE_INFINITY, maxValue ?? Number.POSITIVE_INFINITY];
  const bounds = new Set([least, most].filter((bound) => element.safeParse(bound).success));
  return (item) =>
    typeof item === 'number' &&
    ((item > least && item < most && (!isInt || Number.isInteger(item))) || bounds.has(item));
}

/**
 * A list of numbers of one kind, such as the ids of a million tokens: read as `z.array` reads it, only sooner, and of a
 * long one no more than the first wrong element is complained about.
 */
export const numberArray = (element: z.ZodNumber, longest: number): z.ZodArray<z.ZodNumber> =>
  new NumberArray({ type: 'array', element, longest });
