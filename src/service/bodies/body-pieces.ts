import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import type { Context } from 'hono';
import { messageOf, ServiceError } from '../errors.ts';
import { exchangeOf } from '../http/exchange.ts';

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
 * Reads a request's body in chunks and decompresses gzip. `limit` and `count` apply to the decompressed
 * bytes, so that a decompression bomb is refused early.
 *
 * @throws ServiceError `body_too_large` (413), `unsupported_encoding` (415), `body_not_gzip` (400), and
 * the errors of the connection.
 */
export async function* bodyPieces(
  context: Context,
  { limit, count }: BodyPiecesOptions,
): AsyncGenerator<Uint8Array> {
  const { isCompressed, maxSent } = checkHeaders(context, { limit, count });
  const sent = upTo(maxSent, exchangeOf(context).pieces(), limit);
  let bytes = 0;
  for await (const piece of isCompressed ? decompressed(sent) : sent) {
    bytes += piece.byteLength;
    if (bytes > limit) throw tooLarge(limit);
    count.bytes(bytes);
    yield piece;
  }
}

/**
 * Reads a body of at most `limit` bytes into memory. A longer one gets a 413, before reading if its length is
 * declared.
 */
export async function readBytes(context: Context, limit: number, count: ByteCount): Promise<Buffer> {
  const options = { limit, count };
  const arrived = checkHeaders(context, options).isCompressed ? null : exchangeOf(context).arrived();
  if (!arrived) {
    const pieces: Uint8Array[] = [];
    for await (const piece of bodyPieces(context, options)) pieces.push(piece);
    return Buffer.concat(pieces);
  }
  if (arrived.length > limit) throw tooLarge(limit);
  count.bytes(arrived.length);
  return arrived;
}

/** Refuses a body whose headers already say that it cannot be read. */
function checkHeaders(context: Context, { limit, count }: BodyPiecesOptions) {
  const isCompressed = isGzip(context.req.header('content-encoding'));
  const maxSent = isCompressed ? maxCompressedBytes(limit) : limit;
  const declared = Number(context.req.header('content-length') ?? 0);
  if (declared > maxSent) throw tooLarge(limit);
  count.expect(Math.min(declared, limit));
  return { isCompressed, maxSent };
}

/** Upper bound of the gzip size of `limit` bytes: incompressible data grows by less than this. */
const maxCompressedBytes = (limit: number) => limit + Math.ceil(limit / 256) + 1024;

function isGzip(header = ''): boolean {
  const encodings = header
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== 'identity');
  const [first] = encodings;
  if (first === undefined) return false;
  if (encodings.length === 1 && gzipNames.has(first)) return true;
  throw new ServiceError(
    415,
    'unsupported_encoding',
    `The Content-Encoding ${JSON.stringify(header.slice(0, 100))} is not supported. Send the body as gzip, or uncompressed without Content-Encoding.`,
  );
}

async function* upTo(
  maxBytes: number,
  pieces: AsyncIterable<Uint8Array>,
  limit: number,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of pieces) {
    bytes += piece.byteLength;
    if (bytes > maxBytes) throw tooLarge(limit);
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
