import { constants } from 'node:buffer';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Context } from 'hono';
import { ServiceError } from '../errors.ts';
import type { DataFiles } from '../store/files.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import { type BodyPiecesOptions, bodyPieces } from './body-pieces.ts';

/** Largest bodies, in bytes. */
export interface BodyLimits {
  /** Chat completions. Default 16 MiB. */
  chat: number;
  /** Paths under /v1/preview: trajectories and training data. Default 256 MiB. */
  preview: number;
}

export const defaultBodyLimits: BodyLimits = { chat: 16 * 1024 ** 2, preview: 256 * 1024 ** 2 };

/** The whole body of a request: in memory if small, else in a file that is deleted after the request. */
export interface ReceivedBody {
  bytes: number;
  content: Buffer | IncomingFile;
  /** SHA-256 of the request's method, path and body, in hexadecimal. */
  fingerprint: string;
}

/** Reads a whole body into memory. Only for bodies whose length is bounded. */
export const contentOf = async ({ content }: ReceivedBody): Promise<Buffer> =>
  Buffer.isBuffer(content) ? content : content.read();

/** A body for another thread: itself, or the path of its file, so that nobody copies a large one. */
export type ThreadBody = Uint8Array | { path: string };

export const forThread = ({ content }: ReceivedBody): ThreadBody =>
  Buffer.isBuffer(content) ? content : { path: content.path };

/** The content of a body in the thread that it was sent to. @throws ServiceError `body_too_large` if no text is so long */
export function threadContent(body: ThreadBody): Buffer {
  if (!('path' in body)) return Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const content = readFileSync(body.path);
  if (content.length <= constants.MAX_STRING_LENGTH) return content;
  throw new ServiceError(
    413,
    'body_too_large',
    `The body has ${content.length} bytes; JSON of more than ${constants.MAX_STRING_LENGTH} cannot be read. Send fewer groups in one body.`,
  );
}

/** Bodies up to this size stay in memory. */
const memoryBytes = 1024 ** 2;

/** Chunks are buffered up to this size before they are written to the file. */
const writeBytes = 262_144;

/**
 * Receives a body and keeps it until `work` ends, then deletes it. Once there are many chunks, the earlier ones go to a
 * file. A body over the limit gets a 413 as soon as that is known, a truncated one a 400. The fingerprint is of the
 * decompressed body.
 */
export async function receiveBody<Result>(
  files: DataFiles,
  context: Context,
  options: BodyPiecesOptions,
  work: (body: ReceivedBody) => Promise<Result>,
): Promise<Result> {
  const hash = createHash('sha256').update(`${context.req.method} ${context.req.path}\n`);
  let chunks: Uint8Array[] = [];
  let waiting = 0;
  let file: IncomingFile | undefined;
  try {
    for await (const chunk of bodyPieces(context, options)) {
      hash.update(chunk);
      chunks.push(chunk);
      waiting += chunk.byteLength;
      if (waiting <= (file ? writeBytes : memoryBytes)) continue;
      file ??= await files.createIncoming();
      await file.append(Buffer.concat(chunks));
      chunks = [];
      waiting = 0;
    }
    const rest = Buffer.concat(chunks);
    await file?.append(rest);
    const bytes = file?.bytes ?? rest.length;
    return await work({ bytes, content: file ?? rest, fingerprint: hash.digest('hex') });
  } finally {
    await file?.discard();
  }
}
