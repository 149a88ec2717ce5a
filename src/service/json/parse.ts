import { isUtf8 } from 'node:buffer';
import { TimeSlices } from '../../util/time-slices.ts';
import { messageOf } from '../errors.ts';
import { type ByteSource, MemorySource, type Range } from './byte-source.ts';
import { rememberTools } from './exact-tools.ts';
import { checkShape, childrenOf, isSpace, JsonScanner, malformed, type Run, runsOf } from './scanner.ts';

/** Text up to this size is parsed in one go, and validated in another: a few milliseconds. */
export const wholeBytes = 131_072;

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

const startsWithMark = (text: Buffer) => text.subarray(0, byteOrderMark.length).equals(byteOrderMark);

/**
 * Parses the JSON of a body: small text at once, large text in time slices. Invalid or empty text, too deep nesting and
 * too many values get a 422.
 */
export async function readJson(content: Buffer, slices = new TimeSlices()): Promise<unknown> {
  if (slices.over) await slices.pause();
  if (content.length <= wholeBytes) {
    checkShape(content);
    return parsePart(startsWithMark(content) ? content.subarray(byteOrderMark.length) : content);
  }
  const source = new MemorySource(content);
  const scanner = new JsonScanner();
  for await (const piece of source.pieces({ start: 0, end: content.length })) {
    if (slices.over) await slices.pause();
    scanner.push(piece);
  }
  return parseInSlices(source, await wholeText(source), { slices });
}

interface ParseOptions {
  slices?: TimeSlices;
  /** Values up to this many bytes are parsed in one go. Default `wholeBytes`. */
  whole?: number;
}

/** Parses the value in a range as `JSON.parse` would, in time slices. */
export async function parseInSlices(
  source: ByteSource,
  range: Range,
  { slices = new TimeSlices(), whole = wholeBytes }: ParseOptions = {},
): Promise<unknown> {
  const options = { slices, whole };
  if (range.end - range.start > whole)
    switch (await openingOf(source, range)) {
      case '[':
        return parseList(source, range, options);
      case '{':
        return parseObject(source, range, options);
      case '"':
        // Otherwise white space follows the string.
        if (await endsWithQuote(source, range)) return parseString(source, range, options);
    }
  if (slices.over) await slices.pause();
  return parsePart(await source.read(range), range.start);
}

async function parseList(
  source: ByteSource,
  range: Range,
  options: Required<ParseOptions>,
): Promise<unknown[]> {
  const list: unknown[] = [];
  for await (const run of runsOf(source, range, options)) {
    if (options.slices.over) await options.slices.pause();
    const [only] = run.children;
    if (run.children.length === 1) list.push(await parseInSlices(source, only, options));
    else appendAll(list, await parseRun(source, run, ['[', ']']));
  }
  return list;
}

async function parseObject(
  source: ByteSource,
  range: Range,
  options: Required<ParseOptions>,
): Promise<Record<string, unknown>> {
  const entries: [string, unknown][] = [];
  for await (const run of runsOf(source, range, options)) {
    if (options.slices.over) await options.slices.pause();
    const [only] = run.children;
    if (run.children.length === 1 && only.key) {
      const key = await keyAt(source, only.key);
      const value = await parseInSlices(source, only, options);
      if (key === 'tools' && only.end - only.start <= options.whole)
        rememberTools({ tools: value }, `{"tools":${await source.read(only)}}`);
      entries.push([key, value]);
    } else appendAll(entries, Object.entries(Object(await parseRun(source, run, ['{', '}']))));
  }
  if (options.slices.over) await options.slices.pause();
  return Object.fromEntries(entries);
}

async function parseRun(source: ByteSource, run: Run, [open, close]: [string, string]): Promise<unknown> {
  return parsePart(Buffer.concat([Buffer.from(open), await source.read(run), Buffer.from(close)]), run.start);
}

/** Works also for more items than a call may have arguments. */
function appendAll<Item>(list: Item[], items: unknown): void {
  if (Array.isArray(items)) for (const item of items) list.push(item);
}

/** Parses the name of a member. */
export async function keyAt(source: ByteSource, key: Range): Promise<string> {
  return String(parsePart(await source.read(key), key.start));
}

/** The opening bracket of the value at the start of a range; null if it is not an object or a list. */
export async function containerAt(source: ByteSource, range: Range): Promise<'{' | '[' | null> {
  const first = await openingOf(source, range);
  return first === '{' || first === '[' ? first : null;
}

const endsWithQuote = async (source: ByteSource, { end }: Range) =>
  (await source.read({ start: end - 1, end })).toString('latin1') === '"';

async function openingOf(source: ByteSource, { start }: Range): Promise<string> {
  return (await source.read({ start, end: start + 1 })).toString('latin1');
}

/** The range of a text's only value, without a byte order mark and leading white space. */
export async function wholeText(source: ByteSource): Promise<Range> {
  const marked = startsWithMark(await source.read({ start: 0, end: byteOrderMark.length }));
  return { start: await skipSpace(source, marked ? byteOrderMark.length : 0), end: source.bytes };
}

/** Whether a range, which begins with the bracket of a list, holds no element. */
export async function isEmptyList(source: ByteSource, { start }: Range): Promise<boolean> {
  const first = await skipSpace(source, start + 1);
  return (await openingOf(source, { start: first, end: source.bytes })) === ']';
}

/** The offset of the first byte that is not white space. */
async function skipSpace(source: ByteSource, start: number): Promise<number> {
  let at = start;
  for await (const piece of source.pieces({ start, end: source.bytes })) {
    const found = piece.findIndex((byte) => !isSpace(byte));
    if (found !== -1) return at + found;
    at += piece.length;
  }
  return at;
}

/** Parses a part of a body with `JSON.parse`. Throws the error of `malformed`. */
export function parsePart(bytes: Buffer, at = 0): unknown {
  if (!isUtf8(bytes)) throw malformed('the text is not valid UTF-8');
  try {
    const text = bytes.toString('utf8');
    const value: unknown = JSON.parse(text);
    rememberTools(value, text);
    return value;
  } catch (cause) {
    throw malformed(at === 0 ? messageOf(cause) : `${messageOf(cause)}, in the value at byte ${at}`);
  }
}

const quote = Buffer.from('"');
const backslash = 0x5c;
const letterU = 0x75;
/** Longest byte sequence that must not be cut: `\u1234`. */
const maxUnit = 6;

/** Parses a long string, which ends with its quote, in chunks of at most `whole` bytes. */
async function parseString(
  source: ByteSource,
  { start, end }: Range,
  { slices, whole }: Required<ParseOptions>,
): Promise<string> {
  const maxBytes = Math.max(whole, maxUnit);
  const parts: string[] = [];
  for (let at = start + 1; at < end - 1; ) {
    if (slices.over) await slices.pause();
    const bytes = await source.read({ start: at, end: Math.min(end - 1, at + maxBytes + 1) });
    const piece = bytes.subarray(0, bytes.length > maxBytes ? cutBefore(bytes, maxBytes) : bytes.length);
    // An unescaped quote inside the chunk makes it invalid JSON here.
    parts.push(String(parsePart(Buffer.concat([quote, piece, quote]), at)));
    at += piece.length;
  }
  if (slices.over) await slices.pause();
  return parts.join('');
}

/** The last offset up to `end` that splits neither an escape sequence nor a character. */
function cutBefore(bytes: Buffer, end: number): number {
  for (let escaped = bytes.indexOf(backslash); escaped !== -1 && escaped < end; ) {
    const next = escaped + (bytes[escaped + 1] === letterU ? maxUnit : 2);
    if (next > end) return escaped;
    escaped = bytes.indexOf(backslash, next);
  }
  let cut = end;
  while (cut > end - 3 && isContinuation(bytes[cut])) cut--;
  return cut;
}

const isContinuation = (byte = 0) => (byte & 0xc0) === 0x80;

/**
 * The source text of a member of a JSON object; undefined if there is none. Of duplicate members the last
 * counts, as with `JSON.parse`. The text must be valid JSON.
 */
export async function memberSource(source: ByteSource, name: string): Promise<string | undefined> {
  const whole = await wholeText(source);
  if ((await containerAt(source, whole)) !== '{') return undefined;
  let found: Range | undefined;
  for await (const children of childrenOf(source, whole))
    for (const child of children) if (child.key && (await keyAt(source, child.key)) === name) found = child;
  return found && (await source.read(found)).toString('utf8');
}

/** Whether a body contains only white space. */
export const isBlank = (content: Buffer): boolean => content.every(isSpace);
