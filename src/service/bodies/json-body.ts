import { isUtf8 } from 'node:buffer';
import { TimeSlices } from '../../util/time-slices.ts';
import { parseJson } from '../body.ts';
import { MemorySource } from '../json/byte-source.ts';
import { parseInSlices, wholeBytes, wholeText } from '../json/parse.ts';
import { JsonShapeCheck, malformed } from '../json/shape.ts';

/**
 * The JSON of a body, or of another text with the bounds of one. It is read in pieces, between which others have their
 * turn. One that is no JSON, too deeply nested, or of too many values, is a 422; no text at all is too.
 */
export async function readJson(content: Buffer, slices = new TimeSlices()): Promise<unknown> {
  if (slices.over) await slices.pause();
  if (content.length <= wholeBytes) return parseJson(textIn(content));
  const source = new MemorySource(content);
  const check = new JsonShapeCheck();
  for await (const piece of source.pieces({ start: 0, end: content.length })) {
    if (slices.over) await slices.pause();
    check.push(piece);
  }
  return parseInSlices(source, await wholeText(source), { slices });
}

/** Whether there is nothing in a body but white space. */
export const isBlank = (content: Buffer): boolean => content.every(isWhite);

const isWhite = (byte: number) => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);

/** A text without a byte order mark. Throws what is no UTF-8. */
export function textIn(content: Buffer): string {
  if (!isUtf8(content)) throw malformed('the text is no UTF-8');
  return new TextDecoder().decode(content);
}
