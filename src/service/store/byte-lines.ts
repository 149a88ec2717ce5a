/** A line without its end, with its number from 1. */
export interface ByteLine {
  bytes: Buffer;
  number: number;
}

export interface LineLimit {
  /** Most bytes of a line. Default: no limit. */
  longest?: number;
  /** What a longer one is refused with. */
  tooLong?: (number: number) => Error;
}

const [newline, carriageReturn] = [0x0a, 0x0d];
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * The lines of a text, cut at line feeds alone: JSON may hold any other separator within its strings. The carriage
 * return of a line's end and the byte order mark of the first line are left out. A line's
 * bytes are good until the next is taken.
 */
export async function* byteLines(
  pieces: AsyncIterable<Uint8Array>,
  { longest = Number.POSITIVE_INFINITY, tooLong }: LineLimit = {},
): AsyncGenerator<ByteLine> {
  const refuse = (line: number) =>
    tooLong?.(line) ?? new RangeError(`line ${line} is longer than ${longest}`);
  let begun: Buffer[] = [];
  let length = 0;
  let number = 1;
  const take = (end: Buffer): ByteLine => {
    const line = begun.length === 0 ? end : Buffer.concat([...begun, end]);
    begun = [];
    length = 0;
    const from = number === 1 && line.subarray(0, 3).equals(byteOrderMark) ? 3 : 0;
    return {
      bytes: line.subarray(from, line.at(-1) === carriageReturn ? -1 : line.length),
      number: number++,
    };
  };
  for await (const piece of pieces) {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength);
    let at = 0;
    for (let end = bytes.indexOf(newline); end !== -1; end = bytes.indexOf(newline, at)) {
      if (length + end - at > longest) throw refuse(number);
      yield take(bytes.subarray(at, end));
      at = end + 1;
    }
    if (at === bytes.length) continue;
    length += bytes.length - at;
    if (length > longest) throw refuse(number);
    // The piece's memory may be used again.
    begun.push(Buffer.from(bytes.subarray(at)));
  }
  if (length > 0) yield take(Buffer.alloc(0));
}
