import type { Context } from 'hono';
import type { z } from 'zod';
import { isObject, type JsonObject } from '../util/json.ts';
import { type ByteCount, bodyPieces } from './bodies/body-pieces.ts';
import { RequestValidationError, unsupportedField } from './errors.ts';
import { refuseHeavyJson } from './json/shape.ts';
import { largestIssueCount } from './shown-issue.ts';
import { validate } from './validation.ts';

/** Reads a body of at most `limit` bytes; a longer one is 413, before it is read where its length is declared. */
export async function readBytes(context: Context, limit: number, count: ByteCount): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of bodyPieces(context, { limit, count })) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** Parses a body. One that is no JSON, too deeply nested, or of too many values, is a 422. */
export function parseJson(text: string): unknown {
  refuseHeavyJson(text);
  try {
    return JSON.parse(text);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new RequestValidationError([
      {
        loc: ['body'],
        msg: `JSON decode error: ${reason}`,
        type: 'json_invalid',
        input: null,
        ctx: { error: reason },
      },
    ]);
  }
}

/** Gives fields that came under a vendor's name the interface's own. Both at once is a contradiction. */
export function renameAliases(
  body: JsonObject,
  aliases: Readonly<Record<string, string>>,
  place: string[] = [],
): JsonObject {
  let renamed = body;
  for (const [alias, name] of Object.entries(aliases)) {
    if (!(alias in body)) continue;
    const { [alias]: value, ...rest } = renamed;
    if (value !== null && rest[name] !== undefined && rest[name] !== null)
      throw unsupportedField(
        [...place, alias],
        value,
        `${alias} is another name of ${name}; send one of them`,
      );
    renamed = value === null ? rest : { ...rest, [name]: value };
  }
  return renamed;
}

/** Whether a value is as good as absent: clients send the defaults of options that nobody has set. */
export function asksForNothing(value: unknown): boolean {
  if (value === null || value === undefined || value === false || value === 0) return true;
  if (Array.isArray(value)) return value.length === 0;
  return isObject(value) && Object.keys(value).length === 0;
}

/** Refuses fields the interface does not have: a misspelt option must not turn into a silent default. */
export function refuseUnknownFields(body: JsonObject, known: ReadonlySet<string>): void {
  const issues = Object.keys(body)
    .filter((name) => !known.has(name) && body[name] !== null)
    .slice(0, largestIssueCount)
    .map((name) => ({
      loc: ['body', name],
      msg: `Extra inputs are not permitted: ${name} is no field of this request`,
      type: 'extra_forbidden',
      input: body[name],
    }));
  if (issues.length > 0) throw new RequestValidationError(issues);
}

/** Validates a body against a schema of the contract, and refuses fields that the schema does not name. */
export function validateBody<Schema extends z.ZodObject>(schema: Schema, body: unknown): z.output<Schema> {
  if (isObject(body)) refuseUnknownFields(body, new Set(Object.keys(schema.shape)));
  return validate(schema, body, 'body');
}
