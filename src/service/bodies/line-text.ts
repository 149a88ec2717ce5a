import type { ByteSource, Range } from '../json/byte-source.ts';
import type { LineText } from './grouped-body.ts';

const [lineFeed, carriageReturn, space] = [0x0a, 0x0d, 0x20];

/** JSON text on one line: the line ends in it stand between its tokens, where a space does as well. */
export const lineOf =
  (text: Buffer): LineText =>
  () => [onOneLine(text)];

/** The same of a text that is not in memory. */
export function lineIn(source: ByteSource, range: Range): LineText {
  return async function* () {
    for await (const piece of source.pieces(range)) yield onOneLine(piece);
  };
}

function onOneLine(text: Buffer): Uint8Array {
  if (!text.includes(lineFeed) && !text.includes(carriageReturn)) return text;
  return text.map((byte) => (byte === lineFeed || byte === carriageReturn ? space : byte));
}
