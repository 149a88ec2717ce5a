import type { TimeSlices } from '../../util/time-slices.ts';
import type { ByteSource, Range } from './byte-source.ts';
import { parsePart } from './parse-part.ts';

const quote = Buffer.from('"');
const backslash = 0x5c;
const letterU = 0x75;
/** Bytes that no cut goes through: at most `\u1234`. */
const longestUnit = 6;

/** A string of many bytes, which end with its quote: read in pieces of at most `whole`. */
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
    // A quote within it that is not escaped makes it no JSON.
    parts.push(String(parsePart(Buffer.concat([quote, piece, quote]), at)));
    at += piece.length;
  }
  if (slices.over) await slices.pause();
  return parts.join('');
}

/** The last place up to `longest` that goes neither through an escape nor through a character. */
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
