import type { z } from 'zod';
import { printable } from '../contract/index.ts';
import type { Answer } from './call.ts';
import { BadResponseError } from './errors.ts';
import { excerpt } from './status-error.ts';

/** The answer's body, checked against the contract. */
export function parseAnswer<Schema extends z.ZodType>(schema: Schema, answer: Answer): z.output<Schema> {
  return parseValue(schema, parseJson(answer), answer.facts);
}

export function parseValue<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  facts: Answer['facts'],
): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const detail = `the response is not what the contract says: ${issue?.path.join('.')}: ${issue?.message}`;
  throw new BadResponseError({ ...facts, detail }, { cause: parsed.error });
}

/** Reads answers of that schema. */
export const parserOf =
  <Schema extends z.ZodType>(schema: Schema) =>
  (answer: Answer): z.output<Schema> =>
    parseAnswer(schema, answer);

/** The answer's body, or a part of it, as JSON. */
export function parseJson({ facts, text }: Answer, what = 'not JSON'): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // What V8 says has a piece of the text in it.
    const cause = new SyntaxError(printable(error instanceof Error ? error.message : String(error)));
    throw new BadResponseError({ ...facts, detail: `${what}: ${excerpt(text)}` }, { cause });
  }
}
