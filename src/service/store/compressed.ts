import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import type { IncomingFile } from './incoming-file.ts';

/** Appends a gzip member of the content to a file. */
export async function compressInto(file: IncomingFile, content: AsyncIterable<Uint8Array>): Promise<void> {
  await pipeline(gathered(content), createGzip({ level: 1 }), async (packed: AsyncIterable<Buffer>) => {
    for await (const piece of packed) await file.append(piece);
  });
}

/** What was compressed into the file of this path. */
export async function* readCompressed(path: string): AsyncGenerator<Buffer> {
  const packed = createReadStream(path);
  const plain = createGunzip();
  const unpacked = pipeline(packed, plain);
  // It is awaited below; where the reader leaves early nobody does.
  unpacked.catch(() => {});
  try {
    yield* plain;
    await unpacked;
  } finally {
    packed.destroy();
    plain.destroy();
  }
}

const gatheredBytes = 65_536;

/** The same bytes in pieces that are not too small, and that stay what they are when the next is taken. */
async function* gathered(content: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of content) {
    pieces.push(Buffer.from(piece));
    length += piece.length;
    if (length < gatheredBytes) continue;
    yield Buffer.concat(pieces);
    pieces = [];
    length = 0;
  }
  if (length > 0) yield Buffer.concat(pieces);
}
