import crypto from 'node:crypto';
import { mkdir, open, rm, stat, truncate } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { privateFile, privateFolder, syncFolder } from './durable-files.ts';
import type { IncomingFile } from './incoming-file.ts';

/** Where a model's log goes on: bytes of each split's file that records cover. */
export type LogEnds = ReadonlyMap<string, number>;

/** Puts a gzip member behind the first `end` bytes of a split's file; returns how many bytes that took. */
export async function appendToLog(
  folder: string,
  { split, end }: { split: string; end: number },
  member: IncomingFile,
): Promise<number> {
  await mkdir(folder, { recursive: true, mode: privateFolder });
  const file = await open(join(folder, fileNameOf(split)), 'a', privateFile);
  try {
    // What a crash left behind the last acknowledged record would make the rest of the file unreadable.
    if ((await file.stat()).size > end) await file.truncate(end);
    for await (const piece of member.pieces({ start: 0, end: member.bytes })) await file.appendFile(piece);
    await file.sync();
  } finally {
    await file.close();
  }
  // The first record of a split may be the first thing of its model: the names on the way to it have to last, too.
  if (end === 0)
    for (const parent of [folder, dirname(folder), dirname(dirname(folder))]) await syncFolder(parent);
  return member.bytes;
}

/** Cuts off what stands behind the ends of a model's logs, and removes, of the files named, those that have none. */
export async function cutLogs(folder: string, names: readonly string[], ends: LogEnds): Promise<void> {
  const endOf = new Map([...ends].map(([split, end]) => [fileNameOf(split), end]));
  for (const name of names) {
    const path = join(folder, name);
    const end = endOf.get(name);
    if (end === undefined) await rm(path, { force: true });
    else if ((await stat(path)).size > end) await truncate(path, end);
  }
}

/** Longest name of a split's file that is the split's own; file systems take 255 bytes. */
const longestName = 200;

const capitals = /%[0-9A-F]{2}|[A-Z]/g;

/** A name of its own for a split's file, also where the file system takes capitals for small letters. */
function fileNameOf(split: string): string {
  const encoded = encodeURIComponent(split).replace(capitals, (found) =>
    found.length > 1 ? found : `%${found.charCodeAt(0).toString(16)}`,
  );
  return `${encoded.length <= longestName ? encoded : `sha256-${crypto.hash('sha256', split)}`}.jsonl.gz`;
}
