import { isUtf8 } from 'node:buffer';
import { requestLimits } from '../../contract/index.ts';
import { messageOf, RequestValidationError } from '../errors.ts';
import { rememberTools } from './exact-tools.ts';

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/** A text without the byte order mark that it may begin with. */
export const withoutMark = (content: Buffer): Buffer =>
  content.subarray(0, byteOrderMark.length).equals(byteOrderMark)
    ? content.subarray(byteOrderMark.length)
    : content;

/**
 * Parses the JSON of a body.
 * @param maxValues Most values of it. Infinite for a body of many parts, which only a thread reads: each part may be as
 * large as another body.
 * @throws RequestValidationError for invalid or empty text, too deep nesting and too many values.
 */
export function parseJson(content: Buffer, { maxValues }: Pick<ShapeOptions, 'maxValues'> = {}): unknown {
  if (!isUtf8(content)) throw malformed('the text is not valid UTF-8');
  const text = withoutMark(content).toString('utf8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw malformed(messageOf(cause));
  }
  checkShape(value, { maxValues });
  rememberTools(value, text);
  return value;
}

const malformed = (error: string) =>
  new RequestValidationError([
    { loc: ['body'], msg: `JSON decode error: ${error}`, type: 'json_invalid', input: null, ctx: { error } },
  ]);

/** Whether a body contains only white space. */
export const isBlank = (content: Buffer): boolean => !/[^ \n\r\t]/.test(content.toString('latin1'));

interface ShapeOptions {
  /** Default: that of a body of one part. */
  maxValues?: number | undefined;
  /** Location of the value in the request, for errors. Default: the body. */
  at?: string[];
}

/**
 * Refuses JSON that is nested too deeply, because who reads it may call itself, and what a thread could not hand over: too
 * many values, or members of one object, which take far longer to add than elements of a list.
 */
export function checkShape(
  value: unknown,
  { maxValues = requestLimits.values, at: loc = ['body'] }: ShapeOptions,
): void {
  const refuse = (type: 'too_deep' | 'too_long', limit: number, what: string) => {
    const ctx = { [type === 'too_deep' ? 'max_depth' : 'max_length']: limit };
    const msg = `The JSON has more than ${limit} ${what}, the limit.`;
    return new RequestValidationError([{ loc, msg, type, input: null, ctx }]);
  };
  const { depth, membersOfObject } = requestLimits;
  let values = 0;
  const count = (inner: unknown, room: number): void => {
    if (++values > maxValues) throw refuse('too_long', maxValues, 'values');
    if (typeof inner !== 'object' || inner === null) return;
    if (room === 0) throw refuse('too_deep', depth, 'levels of nesting');
    const parts = Array.isArray(inner) ? inner : Object.values(inner);
    if (parts !== inner && parts.length > membersOfObject)
      throw refuse('too_long', membersOfObject, 'members of one object');
    for (const part of parts) count(part, room - 1);
  };
  count(value, depth);
}
