import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import type { Context } from 'hono';
import type { Caller } from '../../util/fair-queue.ts';
import { messageOf, ServiceError } from '../errors.ts';
import { exchangeOf } from '../http/exchange.ts';
import { readText, type TextKind } from '../json/read-text.ts';

/** The supported `Content-Encoding` of requests, besides `identity`. */
export const acceptedEncoding = 'gzip';

/** `x-gzip` is an alias (RFC 9110, 8.4.1.3). */
const gzipNames: ReadonlySet<string> = new Set([acceptedEncoding, 'x-gzip']);

/** Size of decompressed chunks, in bytes. */
const chunkBytes = 65_536;

/** Counts the bytes of a body. An error thrown here ends the reading. */
interface ByteCount {
  /** Called with the declared length, if any. For a compressed body it is a lower bound. */
  expect(total: number): void;
  /** Called with the number of bytes received so far. */
  bytes(total: number): void;
}

export interface BodyPiecesOptions {
  /** Maximum size of the decompressed body, in bytes. */
  limit: number;
  count: ByteCount;
}

/**
 * Reads a request's body in chunks and decompresses gzip. `limit` applies to what is sent and to the
 * decompressed bytes, so that a decompression bomb is refused early; `count` to the latter.
 *
 * @throws ServiceError `body_too_large` (413), `unsupported_encoding` (415), `body_not_gzip` (400), and
 * the errors of the connection.
 */
export async function* bodyPieces(
  context: Context,
  { limit, count }: BodyPiecesOptions,
): AsyncGenerator<Uint8Array> {
  const isCompressed = checkHeaders(context, { limit, count });
  const sent = exchangeOf(context).pieces();
  let bytes = 0;
  for await (const piece of isCompressed ? decompressed(upTo(limit, sent)) : sent) {
    bytes += piece.byteLength;
    if (bytes > limit) throw tooLarge(limit);
    count.bytes(bytes);
    yield piece;
  }
}

/** Reads a body of at most `limit` bytes, in memory, and what it says. @throws what `bodyPieces` and `readText` throw */
export async function readBody<Value>(
  context: Context,
  kind: TextKind<Value>,
  { caller, ...options }: BodyPiecesOptions & { caller?: Caller },
): Promise<Value> {
  const pieces: Uint8Array[] = [];
  for await (const piece of bodyPieces(context, options)) pieces.push(piece);
  return readText(kind, Buffer.concat(pieces), { caller });
}

/** Whether a body is compressed. Refuses one whose headers already say that it cannot be read. */
function checkHeaders(context: Context, { limit, count }: BodyPiecesOptions): boolean {
  const isCompressed = isGzip(context.req.header('content-encoding'));
  const declared = Number(context.req.header('content-length') ?? 0);
  if (declared > limit) throw tooLarge(limit);
  count.expect(declared);
  return isCompressed;
}

function isGzip(header = ''): boolean {
  const encoding = header.trim().toLowerCase();
  if (encoding === '' || encoding === 'identity') return false;
  if (gzipNames.has(encoding)) return true;
  throw new ServiceError(
    415,
    'unsupported_encoding',
    `The Content-Encoding ${JSON.stringify(header.slice(0, 100))} is not supported. Send the body as gzip, or uncompressed without Content-Encoding.`,
  );
}

/** Bounds what is sent, because a gzip file without content can be endless. */
async function* upTo(limit: number, pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of pieces) {
    bytes += piece.byteLength;
    if (bytes > limit) throw tooLarge(limit);
    yield piece;
  }
}

/**
 * Decompresses in system threads, a chunk or two ahead of the reader. An empty body counts as uncompressed: some
 * clients send the header with every request.
 */
async function* decompressed(pieces: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
  const first = await pieces.next();
  if (first.done) return;
  const gunzip = createGunzip({ chunkSize: chunkBytes });
  const all = async function* () {
    yield first.value;
    for await (const piece of pieces) {
      if (gunzip.readableEnded) throw notGzip('data follows its end');
      yield piece;
    }
  };
  const ended = pipeline(all, gunzip);
  // Most errors reach who reads `gunzip` first.
  ended.catch(() => {});
  try {
    for await (const chunk of gunzip) yield chunk;
    await ended;
  } catch (error) {
    throw error instanceof ServiceError ? error : notGzip(messageOf(error));
  }
}

const notGzip = (reason: string) =>
  new ServiceError(
    400,
    'body_not_gzip',
    `The body is not complete gzip data, as its Content-Encoding declares: ${reason}. Send it again, or without Content-Encoding if it is not compressed.`,
  );

function tooLarge(limit: number): ServiceError {
  return new ServiceError(413, 'body_too_large', `The body exceeds this path's limit of ${limit} bytes.`);
}
