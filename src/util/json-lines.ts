import { createReadStream } from 'node:fs';
import { open, truncate } from 'node:fs/promises';
import { hasCode } from './error.ts';

/** One line, without its line end. */
interface ByteLine {
  bytes: Buffer;
  /** Counted from 1. */
  number: number;
  /** Byte offset at which the next line begins. */
  end: number;
  /** The input ends before a line feed. A process may have been killed while it wrote this line. */
  isTorn: boolean;
}

export interface LineLimit {
  /** Maximum length of a line in bytes. Default: no limit. */
  maxBytes?: number;
  /** Makes the error for a longer line. */
  tooLong?: (number: number) => Error;
}

const [newline, carriageReturn] = [0x0a, 0x0d];
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * The lines of a byte stream. Only line feeds end a line, since JSON strings may contain any other separator. A
 * carriage return at the end of a line and a byte order mark at the start of the stream are removed. The bytes of a
 * line are valid until the next line is read.
 */
export async function* byteLines(
  pieces: AsyncIterable<Uint8Array>,
  { maxBytes = Number.POSITIVE_INFINITY, tooLong }: LineLimit = {},
): AsyncGenerator<ByteLine, undefined> {
  let pending: Buffer[] = [];
  let length = 0;
  let number = 1;
  let total = 0;
  const grow = (bytes: number) => {
    length += bytes;
    total += bytes;
    if (length > maxBytes)
      throw tooLong?.(number) ?? new RangeError(`Line ${number} is longer than ${maxBytes} bytes.`);
  };
  const take = (end: Buffer, isTorn = false): ByteLine => {
    const line = pending.length === 0 ? end : Buffer.concat([...pending, end]);
    pending = [];
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
    // Copied, because the source may reuse the memory of the piece.
    pending.push(Buffer.from(bytes.subarray(at)));
  }
  if (length > 0) yield take(Buffer.alloc(0), true);
}

/**
 * The values of a JSON lines file with their line numbers, counted from 1. A last line that is not JSON is skipped,
 * since a killed process may have left half a line.
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
 * The complete lines of a file that will be appended to, at most `count`. Once all are read, the rest of the file (a
 * torn last line, and lines beyond `count`) is cut off. A missing file has no lines.
 */
export async function* resumeLines(
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
    if (hasCode(error, 'ENOENT')) return;
    throw error;
  }
  if (rest) await truncate(path, whole);
}

/** Cuts off a torn last line. Reads backwards from the end, so the size of the file does not matter. */
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
