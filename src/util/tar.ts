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
  write('0', 156);
  write('ustar\x0000', 257);
  write(`${octal(checksumOf(header), 6)}\0 `, 148);
  return header;
}

/** The sum of a header's bytes, in which the checksum's own bytes count as spaces. */
const checksumOf = (header: Uint8Array) =>
  header.reduce((sum, byte, index) => sum + (index >= 148 && index < 156 ? 0x20 : byte), 0);

/** The types of entries: a plain file, as '0' or as '', a folder, and facts of the next entry or of all (POSIX.1-2001). */
const [plain, folder, extended] = [['', '0'], '5', ['x', 'g']] as const;

/**
 * Decodes a tar archive of files and folders, piece by piece; only the files are yielded. The content of a file must be
 * read to its end before the next.
 * @throws Error when the archive is cut off or damaged, or has other entries, such as links.
 */
export async function* decodeTar(archive: AsyncIterable<Uint8Array>): AsyncGenerator<TarFile> {
  const chunks = archive[Symbol.asyncIterator]();
  let rest: Uint8Array = new Uint8Array();
  async function* take(bytes: number): AsyncGenerator<Uint8Array> {
    for (let missing = bytes; missing > 0; ) {
      if (rest.length === 0) {
        const { value, done } = await chunks.next();
        if (done) throw new Error('the archive is cut off');
        rest = value;
      }
      const piece = rest.subarray(0, missing);
      rest = rest.subarray(piece.length);
      missing -= piece.length;
      if (piece.length > 0) yield piece;
    }
  }
  const taken = async (bytes: number) => {
    const pieces: Uint8Array[] = [];
    for await (const piece of take(bytes)) pieces.push(piece);
    return Buffer.concat(pieces);
  };
  /** Of the next entry, where a header of its own says it. */
  let longPath: string | undefined;
  try {
    for (let header = await taken(blockBytes); header.some((byte) => byte !== 0); ) {
      const text = (start: number, end: number) => header.toString('latin1', start, end).replace(/\0.*/s, '');
      const type = text(156, 157);
      const bytes = Number.parseInt(text(124, 136), 8);
      const isExtended = extended.some((one) => one === type);
      const isKnown = isExtended || type === folder || plain.some((one) => one === type);
      if (
        !isKnown ||
        !Number.isSafeInteger(bytes) ||
        Number.parseInt(text(148, 156), 8) !== checksumOf(header)
      )
        throw new Error('it is not a tar archive of plain files');
      if (isExtended) longPath = extendedPath(await taken(bytes));
      else {
        const path = longPath ?? text(0, 100);
        longPath = undefined;
        if (type !== folder) yield { path, bytes, content: take(bytes) };
      }
      await taken(padded(bytes) - bytes);
      header = await taken(blockBytes);
    }
    // What follows is padding; to its end, so that a cut connection is noticed.
    while (!(await chunks.next()).done);
  } finally {
    await chunks.return?.();
  }
}

/**
 * The path among the records of an extended header: `24 path=weights/one.bin` and a line feed, with the record's length
 * in bytes, itself included. A value may have line feeds of its own, so only the lengths tell where a record ends.
 */
function extendedPath(records: Buffer): string | undefined {
  let path: string | undefined;
  for (let start = 0; start < records.length; ) {
    const length = Number(/^[1-9]\d* /.exec(records.toString('latin1', start, start + 20))?.[0]);
    const end = start + length;
    if (!(end <= records.length) || records[end - 1] !== 0x0a)
      throw new Error('it is not a tar archive: a record of an extended header has a wrong length');
    path = /^\d+ path=(.*)$/s.exec(records.toString('utf8', start, end - 1))?.[1] ?? path;
    start = end;
  }
  return path;
}
