import type { Context } from 'hono';
import type { z } from 'zod';
import { RequestValidationError, ServiceError, unsupportedField } from './errors.ts';
import { refuseHeavyJson } from './json/shape.ts';
import { validate } from './validation.ts';

export type JsonObject = Record<string, unknown>;

/**
 * Reads a body of at most `limit` bytes; a longer one is 413, before it is read where its length is declared.
 * `onBytes` hears how many bytes it has, or has so far, before they are read where that is declared; what it throws
 * ends the reading.
 */
export async function readText(
  context: Context,
  limit: number,
  onBytes: (total: number) => void = () => {},
): Promise<string> {
  try {
    return await readAtMost(context, limit, onBytes);
  } catch (cause) {
    if (cause instanceof ServiceError) throw cause;
    throw cutOff(cause);
  }
}

async function readAtMost(
  context: Context,
  limit: number,
  onBytes: (total: number) => void,
): Promise<string> {
  const declared = context.req.header('content-length');
  if (declared !== undefined) {
    if (Number(declared) > limit) throw tooLarge(limit);
    onBytes(Number(declared));
    return await context.req.text();
  }
  const stream = context.req.raw.body;
  if (!stream) return '';
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.byteLength;
    if (bytes > limit) throw tooLarge(limit);
    onBytes(bytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** What a body is refused with that broke off. */
export const cutOff = (cause: unknown) =>
  new ServiceError(400, 'body_cut', 'The connection broke before the body was whole.', { cause });

export function tooLarge(limit: number): ServiceError {
  return new ServiceError(
    413,
    'body_too_large',
    `The body is larger than the ${limit} bytes this path takes.`,
  );
}

/** Parses a body. One that is no JSON, too deeply nested, or of too many values, is a 422. */
export function parseJson(text: string): unknown {
  refuseHeavyJson(text);
  try {
    return JSON.parse(text);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new RequestValidationError([
      { loc: ['body'], msg: `JSON decode error: ${reason}`, type: 'json_invalid', ctx: { error: reason } },
    ]);
  }
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
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
