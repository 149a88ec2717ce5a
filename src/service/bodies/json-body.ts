import { isUtf8 } from 'node:buffer';
import type { Context } from 'hono';
import { TimeSlices } from '../../util/time-slices.ts';
import { messageOf } from '../errors.ts';
import { MemorySource } from '../json/byte-source.ts';
import { parseInSlices, wholeBytes, wholeText } from '../json/parse.ts';
import { JsonShapeCheck, malformed, refuseHeavyJson } from '../json/shape.ts';
import { type ByteCount, bodyPieces } from './body-pieces.ts';

/**
 * Reads a body of at most `limit` bytes. A longer one gets a 413, before reading if its length is
 * declared.
 */
export async function readBytes(context: Context, limit: number, count: ByteCount): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of bodyPieces(context, { limit, count })) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** Parses a body. Invalid JSON, too deep nesting and too many values get a 422. */
export function parseJson(text: string): unknown {
  refuseHeavyJson(text);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw malformed(messageOf(cause));
  }
}

/**
 * Parses JSON with the bounds of a body: small text at once, large text in time slices (`shared` with the
 * caller's other work). Invalid or empty text, too deep nesting and too many values get a 422.
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

/** Whether a body contains only white space. */
export const isBlank = (content: Buffer): boolean => content.every(isWhite);

const isWhite = (byte: number) => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);

/** Decodes UTF-8 without a byte order mark. Throws for invalid UTF-8. */
export function textIn(content: Buffer): string {
  if (!isUtf8(content)) throw malformed('the text is no UTF-8');
  return new TextDecoder().decode(content);
}
