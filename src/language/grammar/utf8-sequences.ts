import type { CodePointRange } from './expression.ts';

/** Inclusive range of bytes. */
type ByteRange = readonly [first: number, last: number];

const SURROGATES: CodePointRange = [0xd800, 0xdfff];
/** The last code points that UTF-8 encodes in one, two, three and four bytes. */
const LENGTH_ENDS = [0x7f, 0x7ff, 0xffff, 0x10ffff];

/**
 * The UTF-8 byte sequences of a range of code points: each a list of byte ranges, one per byte (the method of RE2's and
 * Rust's `utf8-ranges`). Surrogates have no encoding and are left out.
 */
export function utf8Sequences([first, last]: CodePointRange): ByteRange[][] {
  if (first > last) return [];
  const [low, high] = SURROGATES;
  if (first <= high && last >= low)
    return [...utf8Sequences([first, low - 1]), ...utf8Sequences([high + 1, last])];
  for (const end of LENGTH_ENDS)
    if (first <= end && last > end)
      return [...utf8Sequences([first, end]), ...utf8Sequences([end + 1, last])];
  return splitAtContinuations(first, last);
}

/** Splits a range of equal encoded length until each continuation byte covers its full range or is constant. */
function splitAtContinuations(first: number, last: number): ByteRange[][] {
  for (let bits = 6; bits < 24; bits += 6) {
    const mask = 2 ** bits - 1;
    if (first >> bits === last >> bits) break;
    if ((first & mask) !== 0)
      return [
        ...splitAtContinuations(first, first | mask),
        ...splitAtContinuations((first | mask) + 1, last),
      ];
    if ((last & mask) !== mask)
      return [
        ...splitAtContinuations(first, (last & ~mask) - 1),
        ...splitAtContinuations(last & ~mask, last),
      ];
  }
  const from = Buffer.from(String.fromCodePoint(first));
  const to = Buffer.from(String.fromCodePoint(last));
  return [Array.from(from, (byte, index): ByteRange => [byte, to[index]!])];
}
