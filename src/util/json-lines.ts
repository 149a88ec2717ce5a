import { createReadStream } from 'node:fs';
import { open, truncate } from 'node:fs/promises';

/** A line without its end. */
export interface ByteLine {
  bytes: Buffer;
  /** Counted from 1. */
  number: number;
  /** Byte of the text at which the next line begins. */
  end: number;
  /** The text ends before a line feed: a process may have been killed while it wrote this line. */
  isTorn: boolean;
}

export interface LineLimit {
  /** Most bytes of a line. Default: no limit. */
  longest?: number;
  /** Makes the error for a longer line. */
  tooLong?: (number: number) => Error;
}

const [newline, carriageReturn] = [0x0a, 0x0d];
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * The lines of a text. Only line feeds end a line: the strings of JSON may hold any other separator. The carriage
 * return at the end of a line and the byte order mark of the first line are left out. The bytes of a line are valid
 * until the next line is taken.
 */
export async function* byteLines(
  pieces: AsyncIterable<Uint8Array>,
  { longest = Number.POSITIVE_INFINITY, tooLong }: LineLimit = {},
): AsyncGenerator<ByteLine, undefined> {
  let begun: Buffer[] = [];
  let length = 0;
  let number = 1;
  let total = 0;
  const grow = (bytes: number) => {
    length += bytes;
    total += bytes;
    if (length > longest)
      throw tooLong?.(number) ?? new RangeError(`Line ${number} is longer than ${longest} bytes.`);
  };
  const take = (end: Buffer, isTorn = false): ByteLine => {
    const line = begun.length === 0 ? end : Buffer.concat([...begun, end]);
    begun = [];
    length = 0;
    if (!isTorn) total++;
    const from = number === 1 && line.subarray(0, 3).equals(byteOrderMark) ? 3 : 0;
    const to = line.at(-1) === carriageReturn ? -1 : line.length;
    return { bytes: line.subarray(from, to), number: number++, end: total, isTorn };
  };
  for await (const piece of pieces) {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    let at = 0;
    for (let end = bytes.indexOf(newline); end !== -1; end = bytes.indexOf(newline, at)) {
      grow(end - at);
      yield take(bytes.subarray(at, end));
      at = end + 1;
    }
    if (at === bytes.length) continue;
    grow(bytes.length - at);
    // A copy: the source may use the memory of the piece again.
    begun.push(Buffer.from(bytes.subarray(at)));
  }
  if (length > 0) yield take(Buffer.alloc(0), true);
}

/**
 * The values of a file of JSON lines with the numbers of their lines, counted from 1. A killed process may have left
 * half a line at the end: a last line that is not JSON is skipped.
 * @param notJson Makes the error for any other line that is not JSON.
 */
export async function* readJsonLines(
  path: string,
  notJson: (line: number, cause: unknown) => Error,
): AsyncGenerator<{ value: unknown; line: number }, undefined> {
  let broken: { line: number; cause: unknown } | undefined;
  for await (const { bytes, number } of byteLines(createReadStream(path))) {
    if (broken) throw notJson(broken.line, broken.cause);
    let value: unknown;
    try {
      value = JSON.parse(bytes.toString('utf8'));
    } catch (cause) {
      broken = { line: number, cause };
      continue;
    }
    yield { value, line: number };
  }
}

/**
 * The whole lines of a file that further lines will be appended to, at most `count`. When all have been taken, the rest
 * of the file (a torn last line, and lines beyond `count`) is cut off. A file that does not exist has no lines.
 */
export async function* takeUpLines(
  path: string,
  count = Number.POSITIVE_INFINITY,
): AsyncGenerator<string, undefined> {
  let whole = 0;
  let rest = false;
  try {
    for await (const { bytes, number, end, isTorn } of byteLines(createReadStream(path))) {
      rest = isTorn || number > count;
      if (rest) break;
      whole = end;
      yield bytes.toString('utf8');
    }
  } catch (error) {
    if (isMissing(error)) return;
    throw error;
  }
  if (rest) await truncate(path, whole);
}

/** Cuts off a torn last line. Reads from the end, so the size of the file does not matter. */
export async function cutTornLine(path: string): Promise<void> {
  await using handle = await open(path, 'a+', 0o600);
  const { size } = await handle.stat();
  const chunk = Buffer.alloc(64 * 1024);
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - chunk.length);
    const { bytesRead } = await handle.read(chunk, 0, end - start, start);
    const lineEnd = chunk.subarray(0, bytesRead).lastIndexOf(newline);
    if (lineEnd >= 0) return handle.truncate(start + lineEnd + 1);
    end = start;
  }
  await handle.truncate(0);
}

/** Whether an error says that a file or folder does not exist. */
export const isMissing = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ENOENT';
