import { ReadableStream } from 'node:stream/web';

const blockBytes = 512;

/** A file of a tar archive. */
export interface TarFile {
  /** Path in the archive: ASCII, at most 100 characters. */
  path: string;
  /** At most 8 GiB. */
  bytes: number;
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** The length of an archive of files with these numbers of bytes. */
export function tarBytes(files: readonly Pick<TarFile, 'bytes'>[]): number {
  const padded = (bytes: number) => Math.ceil(bytes / blockBytes) * blockBytes;
  return files.reduce((sum, { bytes }) => sum + blockBytes + padded(bytes), 2 * blockBytes);
}

/** Encodes files as a tar archive, piece by piece. The same files give the same bytes. */
export async function* encodeTar(files: readonly TarFile[]): AsyncGenerator<Uint8Array> {
  // Few runs export weights.
  const { createTarPacker } = await import('modern-tar');
  const { readable, controller } = createTarPacker();
  const add = async () => {
    for (const { path, bytes, content } of files)
      await ReadableStream.from(content).pipeTo(
        controller.add({ name: path, size: bytes, mode: 0o644, mtime: new Date(0) }),
      );
    controller.finalize();
  };
  // Who reads the archive gets the error.
  add().catch((error: unknown) => controller.error(error));
  yield* readable;
}

/**
 * Decodes a tar archive of files and folders, piece by piece; only the files are yielded. The content of a file must be
 * read to its end before the next.
 * @throws Error when the archive is cut off or damaged, or has other entries, such as links.
 */
export async function* decodeTar(archive: AsyncIterable<Uint8Array>): AsyncGenerator<TarFile> {
  const { createTarDecoder } = await import('modern-tar');
  const entries = ReadableStream.from(archive).pipeThrough(createTarDecoder({ strict: true }));
  for await (const { header, body } of entries) {
    if (header.type === 'directory') continue;
    if (header.type !== 'file') throw new Error(`it has ${header.name}, which is no file: ${header.type}`);
    yield { path: header.name, bytes: header.size, content: body };
  }
}
