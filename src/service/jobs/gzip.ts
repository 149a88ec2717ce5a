import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { joined } from '../../util/joined.ts';

/** Small texts are compressed together up to this many bytes. */
const gatheredBytes = 65_536;

/** Compresses texts into one gzip member. */
export async function gzip(texts: AsyncIterable<string | Uint8Array>): Promise<Uint8Array<ArrayBuffer>> {
  const packed: Uint8Array[] = [];
  await pipeline(gathered(texts), createGzip({ level: 1 }), async (pieces: AsyncIterable<Buffer>) => {
    for await (const piece of pieces) packed.push(piece);
  });
  return joined(packed);
}

async function* gathered(texts: AsyncIterable<string | Uint8Array>): AsyncGenerator<Buffer> {
  let pieces: Uint8Array[] = [];
  let length = 0;
  for await (const text of texts) {
    const bytes = typeof text === 'string' ? Buffer.from(text) : text;
    pieces.push(bytes);
    length += bytes.length;
    if (length < gatheredBytes) continue;
    yield Buffer.concat(pieces);
    pieces = [];
    length = 0;
  }
  yield Buffer.concat(pieces);
}
