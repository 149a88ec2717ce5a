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
  return files.reduce((sum, { bytes }) => sum + blockBytes + padded(bytes), 2 * blockBytes);
}

/** Encodes files as a tar archive in the format `ustar` of POSIX.1-1988, piece by piece. */
export async function* encodeTar(files: readonly TarFile[]): AsyncGenerator<Uint8Array> {
  for (const { path, bytes, content } of files) {
    yield headerOf(path, bytes);
    yield* content;
    if (bytes < padded(bytes)) yield new Uint8Array(padded(bytes) - bytes);
  }
  yield new Uint8Array(2 * blockBytes);
}

const padded = (bytes: number) => Math.ceil(bytes / blockBytes) * blockBytes;

/** Numbers are octal digits. The file belongs to nobody, so that whoever unpacks it owns it. */
function headerOf(path: string, bytes: number): Uint8Array {
  const header = new Uint8Array(blockBytes);
  const write = (text: string, offset: number) => header.set(new TextEncoder().encode(text), offset);
  const octal = (value: number, digits: number) => value.toString(8).padStart(digits, '0');
  write(path, 0);
  write(`${octal(0o644, 7)}\0${octal(0, 7)}\0${octal(0, 7)}\0`, 100);
  write(`${octal(bytes, 11)}\0${octal(0, 11)}\0`, 124);
  // The checksum counts as eight spaces in itself.
  write(`${' '.repeat(8)}0`, 148);
  write('ustar\x0000', 257);
  const checksum = header.reduce((sum, byte) => sum + byte, 0);
  write(`${octal(checksum, 6)}\0 `, 148);
  return header;
}
