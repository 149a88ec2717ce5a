import { isUtf8 } from 'node:buffer';
import { requestLimits } from '../../contract/index.ts';
import type { Caller } from '../../util/fair-queue.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { messageOf, RequestValidationError } from '../errors.ts';
import { ReadingThread } from '../reading-thread.ts';
import { rememberTexts, rememberTools } from './exact-tools.ts';
import { fromPieces, type Pieces } from './pieces.ts';

/** Text up to this size is parsed and validated in one go, which takes a few milliseconds. */
export const wholeBytes = 131_072;

/** What a text may be read as. Each kind is known to the thread by its name. */
export interface TextKind<Value> extends Pick<ShapeOptions, 'maxValues'> {
  name: string;
  /** Validates the value of the JSON in `content`. */
  validate: (value: unknown, content: Buffer) => Value;
}

/** A text to read. */
export interface TextTask {
  kind: string;
  content: Uint8Array;
}

interface TextRead {
  pieces: Pieces;
  /** What `toolTexts` knows of the value. */
  tools: (string | null)[];
}

/** One thread for all services of the process, since a text says all that is needed to read it. */
const thread = new ReadingThread<TextTask, TextRead>('text');

/**
 * Reads a text: a short one at once, a long one in a thread, which hands the value over in pieces. So a text does not
 * hold the event loop, however long it is.
 * @throws what `readHere` throws; ServiceError `body_too_large` or `bodies_busy`.
 */
export async function readText<Value>(
  kind: TextKind<Value>,
  content: Buffer,
  { slices = new TimeSlices(), caller }: { slices?: TimeSlices; caller?: Caller } = {},
): Promise<Value> {
  if (slices.over) await slices.pause();
  if (content.length <= wholeBytes) return readHere(kind, content);
  const { pieces, tools } = await thread.run({ kind: kind.name, content }, content.length, { caller });
  // The thread has read it with the same function.
  const value = (await fromPieces(pieces)) as Value;
  rememberTexts(value, tools, wholeBytes);
  return value;
}

/** Reads a text in this thread. @throws what `parseJson` and the kind throw */
export const readHere = <Value>({ validate, maxValues }: TextKind<Value>, content: Buffer): Value =>
  validate(parseJson(content, { maxValues }), content);

export const jsonText: TextKind<unknown> = { name: 'json', validate: (value) => value };

/** Parses the JSON of a body. @throws what `readText` throws */
export const readJson = (content: Buffer): Promise<unknown> => readText(jsonText, content);

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
  /** Default: the limit of a body of one part. */
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
