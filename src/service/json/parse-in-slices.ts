import { TimeSlices } from '../../util/time-slices.ts';
import type { ByteSource, Range } from './byte-source.ts';
import { parsePart } from './parse-part.ts';
import { runsOf } from './runs.ts';
import { parseString } from './strings.ts';

/** Text of this many bytes is parsed in one piece, and read with its schema in another: a few milliseconds. */
export const wholeBytes = 131_072;

export interface ParseOptions {
  slices?: TimeSlices;
  /** What is no longer than this many bytes is parsed in one piece. */
  whole?: number;
}

/**
 * The value in a range: the same that `JSON.parse` gives for its text, read in pieces between which others have
 * their turn.
 */
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
        // Else there is white space behind it.
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

/** Refuses a range whose text is no JSON, without keeping what is in it. */
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

/** Also of more items than a call takes arguments. */
function appendAll<Item>(list: Item[], items: unknown): void {
  if (Array.isArray(items)) for (const item of items) list.push(item);
}

/** The name of a member. */
export async function keyAt(source: ByteSource, key: Range): Promise<string> {
  return String(parsePart(await source.read(key), key.start));
}

/** What a range that begins with a value begins with: an object, a list, or null for anything else. */
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

/** Where the only value of a text stands: behind a byte order mark, where there is one, and white space. */
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
