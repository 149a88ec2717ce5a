import { isUtf8 } from 'node:buffer';
import type { Context } from 'hono';
import { TimeSlices } from '../../util/time-slices.ts';
import { messageOf } from '../errors.ts';
import { MemorySource } from '../json/byte-source.ts';
import { parseInSlices, wholeBytes, wholeText } from '../json/parse.ts';
import { JsonShapeCheck, malformed, refuseHeavyJson } from '../json/shape.ts';
import { type ByteCount, bodyPieces } from './body-pieces.ts';

/** Reads a body of at most `limit` bytes; a longer one is 413, before it is read where its length is declared. */
export async function readBytes(context: Context, limit: number, count: ByteCount): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of bodyPieces(context, { limit, count })) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** Parses a body. One that is no JSON, too deeply nested, or of too many values, is a 422. */
export function parseJson(text: string): unknown {
  refuseHeavyJson(text);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw malformed(messageOf(cause));
  }
}

/**
 * The JSON of a body, or of another text with the bounds of one. A small text is parsed at once, a large one
 * in time slices, `shared` with the caller's other work. One that is no JSON, too deeply nested, or of too many values, is a 422; no text at all is too.
 */
export async function readJson(content: Buffer, shared?: TimeSlices): Promise<unknown> {
  if (shared?.over) await shared.pause();
  if (content.length <= wholeBytes) return parseJson(textIn(content));
  const slices = shared ?? new TimeSlices();
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
