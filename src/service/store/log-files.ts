import crypto from 'node:crypto';
import { mkdir, open, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { privateFile, privateFolder, syncFolder } from '../../util/durable-files.ts';

/** The end of each split's log: the bytes covered by records. */
export type LogEnds = ReadonlyMap<string, number>;

/** Writes gzip members after the first `end` bytes of a split's file and returns their size in bytes. */
export async function appendToLog(
  folder: string,
  { split, end }: { split: string; end: number },
  members: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<number> {
  await mkdir(folder, { recursive: true, mode: privateFolder });
  await using file = await open(join(folder, fileNameOf(split)), 'a', privateFile);
  // Unacknowledged bytes that a crash left would make the rest of the file unreadable.
  if ((await file.stat()).size > end) await file.truncate(end);
  let bytes = 0;
  for await (const piece of members) {
    await file.appendFile(piece);
    bytes += piece.byteLength;
  }
  await file.sync();
  // The first record may also have created the folders, so their entries must become durable too.
  if (end === 0)
    for (const parent of [folder, dirname(folder), dirname(dirname(folder))]) await syncFolder(parent);
  return bytes;
}

/** The logs of a model that are longer than their records, and where the records end: at 0 if there are none. */
export async function logsBeyond(
  folder: string,
  names: readonly string[],
  ends: LogEnds,
): Promise<{ name: string; end: number }[]> {
  const endOf = new Map([...ends].map(([split, end]) => [fileNameOf(split), end]));
  const beyond: { name: string; end: number }[] = [];
  for (const name of names) {
    const end = endOf.get(name) ?? 0;
    if ((await stat(join(folder, name))).size > end || end === 0) beyond.push({ name, end });
  }
  return beyond;
}

/** A longer file name is replaced by a hash of the split. File systems allow 255 bytes. */
const maxNameLength = 200;

const capitals = /%[0-9A-F]{2}|[A-Z]/g;

/** Path of a split's file in a folder of logs. */
export const logFile = (folder: string, split: string): string => join(folder, fileNameOf(split));

/** A unique file name for a split, also on case-insensitive file systems. */
function fileNameOf(split: string): string {
  const encoded = encodeURIComponent(split).replace(capitals, (found) =>
    found.length > 1 ? found : `%${found.charCodeAt(0).toString(16)}`,
  );
  return `${encoded.length <= maxNameLength ? encoded : `sha256-${crypto.hash('sha256', split)}`}.jsonl.gz`;
}
