import { isUtf8 } from 'node:buffer';
import { messageOf, RequestValidationError } from '../errors.ts';
import { rememberTools } from './exact-tools.ts';
import { checkShape } from './shape.ts';

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/** A text without the byte order mark that it may begin with. */
export const withoutMark = (content: Buffer): Buffer =>
  content.subarray(0, byteOrderMark.length).equals(byteOrderMark)
    ? content.subarray(byteOrderMark.length)
    : content;

/**
 * Parses the JSON of a body.
 * @throws RequestValidationError for invalid or empty text, too deep nesting and too many values.
 */
export function parseJson(content: Buffer, limits?: Parameters<typeof checkShape>[1]): unknown {
  checkShape(content, limits);
  if (!isUtf8(content)) throw malformed('the text is not valid UTF-8');
  const text = withoutMark(content).toString('utf8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw malformed(messageOf(cause));
  }
  rememberTools(value, text);
  return value;
}

const malformed = (error: string) =>
  new RequestValidationError([
    { loc: ['body'], msg: `JSON decode error: ${error}`, type: 'json_invalid', input: null, ctx: { error } },
  ]);

/** Whether a body contains only white space. */
export const isBlank = (content: Buffer): boolean => !/[^ \n\r\t]/.test(content.toString('latin1'));
