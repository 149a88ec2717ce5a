import { isUtf8 } from 'node:buffer';
import { TimeSlices } from '../../util/time-slices.ts';
import type { ByteSource, Range } from './byte-source.ts';
import { type Child, ChildScanner, childrenOf } from './children.ts';
import { malformed } from './shape.ts';

/** Text up to this size is parsed in one go, and validated in another: a few milliseconds. */
export const wholeBytes = 131_072;

export interface ParseOptions {
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
  for await (const run of runsOf(source, range, { longest: options.whole, slices: options.slices })) {
    if (options.slices.over) await options.slices.pause();
    const [only] = run.children;
    if (run.count === 1 && only) list.push(await parseInSlices(source, only, options));
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
  for await (const run of runsOf(source, range, { longest: options.whole, slices: options.slices })) {
    if (options.slices.over) await options.slices.pause();
    const [only] = run.children;
    if (run.count === 1 && only?.key)
      entries.push([await keyAt(source, only.key), await parseInSlices(source, only, options)]);
    else appendAll(entries, Object.entries(Object(await parseRun(source, run, ['{', '}']))));
  }
  if (options.slices.over) await options.slices.pause();
  return Object.fromEntries(entries);
}

async function parseRun(source: ByteSource, run: Range, [open, close]: [string, string]): Promise<unknown> {
  return parsePart(Buffer.concat([Buffer.from(open), await source.read(run), Buffer.from(close)]), run.start);
}

/** Throws if a range is not valid JSON, without keeping the parsed value. */
export async function checkInSlices(source: ByteSource, range: Range, slices: TimeSlices): Promise<void> {
  const opening = range.end - range.start > wholeBytes ? await openingOf(source, range) : null;
  if (opening !== '[' && opening !== '{') {
    await parseInSlices(source, range, { slices });
    return;
  }
  const around: [string, string] = opening === '[' ? ['[', ']'] : ['{', '}'];
  for await (const run of runsOf(source, range, { longest: wholeBytes, slices })) {
    if (slices.over) await slices.pause();
    const [only] = run.children;
    if (run.count === 1 && only) {
      if (only.key) await keyAt(source, only.key);
      await checkInSlices(source, only, slices);
    } else await parseRun(source, run, around);
  }
}

/** Works also for more items than a call may have arguments. */
function appendAll<Item>(list: Item[], items: unknown): void {
  if (Array.isArray(items)) for (const item of items) list.push(item);
}

/** Parses the name of a member. */
export async function keyAt(source: ByteSource, key: Range): Promise<string> {
  return String(parsePart(await source.read(key), key.start));
}

/** The opening bracket of the value at the start of a range; null if it is no object or list. */
export async function containerAt(source: ByteSource, range: Range): Promise<'{' | '[' | null> {
  const first = await openingOf(source, range);
  return first === '{' || first === '[' ? first : null;
}

const endsWithQuote = async (source: ByteSource, { end }: Range) =>
  (await source.read({ start: end - 1, end })).toString('latin1') === '"';

async function openingOf(source: ByteSource, { start }: Range): Promise<string> {
  return (await source.read({ start, end: start + 1 })).toString('latin1');
}

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/** The range of a text's only value, without a byte order mark and leading white space. */
export async function wholeText(source: ByteSource): Promise<Range> {
  const marked = (await source.read({ start: 0, end: byteOrderMark.length })).equals(byteOrderMark);
  let start = marked ? byteOrderMark.length : 0;
  for await (const piece of source.pieces({ start, end: source.bytes })) {
    const spaces = /^[ \t\r\n]*/.exec(piece.toString('latin1'))?.[0].length ?? 0;
    start += spaces;
    if (spaces < piece.length) break;
  }
  return { start, end: source.bytes };
}

/** Parses a part of a body with `JSON.parse`. Throws the error of `malformed`. */
export function parsePart(bytes: Buffer, at?: number): unknown {
  if (!isUtf8(bytes)) throw malformed('the text is no UTF-8');
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw malformed(at === undefined || at === 0 ? reason : `${reason}, in the value at byte ${at}`);
  }
}

const quote = Buffer.from('"');
const backslash = 0x5c;
const letterU = 0x75;
/** Longest byte sequence that must not be cut: `\u1234`. */
const longestUnit = 6;

/** Parses a long string, which ends with its quote, in chunks of at most `whole` bytes. */
export async function parseString(
  source: ByteSource,
  { start, end }: Range,
  { slices, whole }: { slices: TimeSlices; whole: number },
): Promise<string> {
  const longest = Math.max(whole, longestUnit);
  const parts: string[] = [];
  for (let at = start + 1; at < end - 1; ) {
    if (slices.over) await slices.pause();
    const bytes = await source.read({ start: at, end: Math.min(end - 1, at + longest + 1) });
    const piece = bytes.subarray(0, bytes.length > longest ? cutBefore(bytes, longest) : bytes.length);
    // An unescaped quote inside the chunk makes it invalid JSON here.
    parts.push(String(parsePart(Buffer.concat([quote, piece, quote]), at)));
    at += piece.length;
  }
  if (slices.over) await slices.pause();
  return parts.join('');
}

/** The last offset up to `longest` that splits neither an escape sequence nor a character. */
function cutBefore(bytes: Buffer, longest: number): number {
  for (let escaped = bytes.indexOf(backslash); escaped !== -1 && escaped < longest; ) {
    const next = escaped + (bytes[escaped + 1] === letterU ? longestUnit : 2);
    if (next > longest) return escaped;
    escaped = bytes.indexOf(backslash, next);
  }
  let cut = longest;
  while (cut > longest - 3 && isContinuation(bytes[cut])) cut--;
  return cut;
}

const isContinuation = (byte = 0) => (byte & 0xc0) === 0x80;

/** Adjacent children of at most `longest` bytes together, or one longer child. */
export interface Run extends Range {
  /** Index of the first child among all children. */
  first: number;
  /** Number of children in the run. */
  count: number;
  /** The first child, or all of them with `keepsAll`. */
  children: Child[];
}

export interface RunOptions {
  longest: number;
  slices: TimeSlices;
  /** Whether runs list every child. Default false: only the first, since there may be a million. */
  keepsAll?: boolean;
}

/** Groups the children of an object or list into runs, so that small ones are read together. */
export async function* runsOf(
  source: ByteSource,
  range: Range,
  { longest, slices, keepsAll = false }: RunOptions,
): AsyncGenerator<Run> {
  const ended: Run[] = [];
  let run: Run | null = null;
  let count = 0;
  const scanner = new ChildScanner(range.start, (start, end, key) => {
    const from = key?.start ?? start;
    if (run && end - run.start <= longest) {
      run.end = end;
      run.count++;
      if (keepsAll) run.children.push({ start, end, key });
    } else {
      if (run) ended.push(run);
      run = { start: from, end, first: count, count: 1, children: [{ start, end, key }] };
    }
    count++;
  });
  for await (const piece of source.pieces(range)) {
    if (slices.over) await slices.pause();
    scanner.push(piece);
    for (const one of ended.splice(0)) yield one;
  }
  scanner.end();
  if (run) yield run;
}

/**
 * The source text of a member of a JSON object; undefined if there is none. Of duplicate members the last
 * counts, as with `JSON.parse`. The text must be valid JSON.
 */
export async function memberSource(source: ByteSource, name: string): Promise<string | undefined> {
  const whole = await wholeText(source);
  if ((await containerAt(source, whole)) !== '{') return undefined;
  let found: Child | undefined;
  for await (const child of childrenOf(source, whole))
    if (child.key && (await keyAt(source, child.key)) === name) found = child;
  return found && (await source.read(found)).toString('utf8');
}
