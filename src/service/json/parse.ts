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
 * @throws RequestValidationError for invalid or empty text, too deep nesting and too many values.
 */
export function parseJson(content: Buffer, options?: ShapeOptions): unknown {
  checkShape(content, options);
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

/** Bounds on the structure of JSON text: see `requestLimits`. */
type JsonLimits = Readonly<Record<'depth' | 'containers' | 'members' | 'membersOfObject' | 'values', number>>;

/** The limits of a body of many parts, which only a thread reads: each part may be as large as another body. */
export const limitsOfParts: JsonLimits = {
  depth: requestLimits.depth,
  membersOfObject: requestLimits.membersOfObject,
  containers: Number.POSITIVE_INFINITY,
  members: Number.POSITIVE_INFINITY,
  values: Number.POSITIVE_INFINITY,
};

interface ShapeOptions {
  /** Default: the limits of a body of one part. */
  limits?: JsonLimits;
  /** Location of the text in the request, for errors. Default: the body. */
  at?: string[];
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const [openObject, closeObject] = [0x7b, 0x7d];
const [openList, closeList] = [0x5b, 0x5d];

/**
 * Refuses JSON text that is nested too deeply or has too many values, before it is parsed: a parser takes seconds for a
 * million names, and recursive readers overflow the stack. It follows strings and brackets alone, so invalid JSON passes.
 */
export function checkShape(
  text: Buffer,
  { limits = requestLimits, at: loc = ['body'] }: ShapeOptions = {},
): void {
  const refuse = (type: 'too_deep' | 'too_long', limit: number, what: string) => {
    const ctx = { [type === 'too_deep' ? 'max_depth' : 'max_length']: limit };
    const msg = `The JSON has more than ${limit} ${what}, the limit.`;
    return new RequestValidationError([{ loc, msg, type, input: null, ctx }]);
  };
  /** Members so far of each open object (0 for a list), the outermost first. */
  const open: number[] = [];
  let [containers, members, commas] = [0, 0, 0];
  for (let at = 0; at < text.length; at++)
    switch (text[at]) {
      case quote:
        at = endOfString(text, at + 1);
        break;
      case openObject:
      case openList:
        if (open.push(0) > limits.depth) throw refuse('too_deep', limits.depth, 'levels of nesting');
        if (++containers > limits.containers)
          throw refuse('too_long', limits.containers, 'arrays and objects');
        break;
      case closeObject:
      case closeList:
        open.pop();
        break;
      case colon: {
        const own = (open.pop() ?? 0) + 1;
        open.push(own);
        if (own > limits.membersOfObject)
          throw refuse('too_long', limits.membersOfObject, 'members of one object');
        if (++members > limits.members) throw refuse('too_long', limits.members, 'members of objects');
        break;
      }
      case comma:
        if (++commas >= limits.values) throw refuse('too_long', limits.values, 'values');
    }
}

/** The offset of the quote that ends a string, or the length of a text that ends within it. */
function endOfString(text: Buffer, start: number): number {
  for (let from = start; ; ) {
    // Most strings are short: looking at a few bytes costs less than a search.
    const nearEnd = Math.min(from + 16, text.length);
    let end = from;
    while (end < nearEnd && text[end] !== quote) end++;
    if (end === nearEnd) end = text.indexOf(quote, nearEnd);
    if (end === -1) return text.length;
    let before = end;
    while (before > from && text[before - 1] === backslash) before--;
    if ((end - before) % 2 === 0) return end;
    from = end + 1;
  }
}
