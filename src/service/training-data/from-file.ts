import { constants } from 'node:fs';
import { type FileHandle, lstat, open, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { messageOf } from '../errors.ts';
import { faultCodeOf } from '../faults.ts';
import { pieceBytes } from '../store/incoming-file.ts';
import { type DataTaker, type FoundData, refuse, type TrainingDataSources } from './sources.ts';

const dataNames = ['train.jsonl', 'trajectories.jsonl'];
const metadataName = 'metadata.json';
const maxMetadataBytes = 1024 ** 2;

const metadataSchema = z.looseObject({
  format: z.literal('jsonl').nullish(),
  num_trajectories: z.number().int().nullish(),
});

/** The requested URL and the allowed folders. */
type RequestedUrl = { url: URL; folders: readonly string[] };

/** Reads the file of a `file:` URL, or the data file of the folder that it names. */
export async function readFileUrl(
  url: URL,
  { folders }: TrainingDataSources,
  taker: DataTaker,
): Promise<FoundData> {
  if (folders.length === 0)
    throw refuse(
      url.href,
      'file: URLs are not allowed: the operator has allowed no folder (serve --allow-data-folder). Upload the data instead',
    );
  const path = await toRealPath(pathOf(url), url, folders);
  if (!(await stat(path)).isDirectory()) {
    await readRegularFile(path, { url, folders }, taker);
    return { examples: null };
  }
  const inside = async (name: string) => {
    const file = await realpath(join(path, name)).catch(() => undefined);
    return file === undefined ? undefined : toRealPath(file, url, folders);
  };
  const found = (await Promise.all(dataNames.map(inside))).filter((file) => file !== undefined);
  const [file] = found;
  if (file === undefined || found.length > 1)
    throw refuse(
      url.href,
      `the folder must contain one of ${dataNames.join(' and ')}; it contains ${found.length === 0 ? 'neither' : 'both'}`,
    );
  const metadata = await inside(metadataName);
  const examples = metadata === undefined ? null : await countInMetadata(metadata, { url, folders });
  if (examples !== null) taker.expectExamples?.(examples);
  await readRegularFile(file, { url, folders }, taker);
  return { examples };
}

function pathOf(url: URL): string {
  try {
    return fileURLToPath(url);
  } catch (cause) {
    throw refuse(url.href, `is not a local path: ${messageOf(cause)}`);
  }
}

/** Resolves links. A path outside the allowed folders gets the same error as a missing one. */
async function toRealPath(path: string, url: URL, folders: readonly string[]): Promise<string> {
  const real = await realpath(path).catch(() => undefined);
  if (real !== undefined && folders.some((folder) => real === folder || isInside(real, folder))) return real;
  throw refuse(url.href, `is not readable; file: URLs must be inside ${folders.join(', ')}`);
}

/**
 * Checks an opened file against the allowed folders again, since a folder in its path may have become a
 * link after the first check. The path must still lead, without links, to the same file.
 */
async function checkOpened(file: FileHandle, path: string, { url, folders }: RequestedUrl): Promise<void> {
  const real = await toRealPath(path, url, folders);
  const [opened, there] = await Promise.all([file.stat({ bigint: true }), lstat(real, { bigint: true })]);
  if (real === path && opened.dev === there.dev && opened.ino === there.ino) return;
  throw refuse(url.href, 'was changed while it was opened');
}

const isInside = (path: string, folder: string) =>
  path.startsWith(folder.endsWith(sep) ? folder : folder + sep);

async function countInMetadata(path: string, requested: RequestedUrl): Promise<number | null> {
  const { url } = requested;
  const pieces: Uint8Array[] = [];
  await readRegularFile(path, requested, {
    limit: maxMetadataBytes,
    take: async (bytes) => {
      pieces.push(Uint8Array.from(bytes));
    },
  });
  const text = Buffer.concat(pieces).toString('utf8');
  try {
    return metadataSchema.parse(JSON.parse(text)).num_trajectories ?? null;
  } catch (cause) {
    const reason = cause instanceof z.ZodError ? z.prettifyError(cause) : messageOf(cause);
    throw refuse(url.href, `its ${metadataName} is invalid: ${reason}`);
  }
}

async function readRegularFile(path: string, requested: RequestedUrl, taker: DataTaker): Promise<void> {
  const { limit, take } = taker;
  const { url } = requested;
  // Links are resolved already; without O_NONBLOCK, opening a pipe would block.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch((cause: unknown) => {
    if (faultCodeOf(cause) === 'too_many_files') throw cause;
    throw refuse(url.href, `cannot be read: ${messageOf(cause)}`);
  });
  try {
    const found = await file.stat();
    if (!found.isFile()) throw refuse(url.href, 'is not a regular file');
    await checkOpened(file, path, requested);
    const tooLong = (bytes: number) => refuse(url.href, `has ${bytes} bytes; the limit is ${limit}`);
    if (found.size > limit) throw tooLong(found.size);
    taker.expect?.(found.size);
    const buffer = Buffer.allocUnsafe(pieceBytes);
    // The file may grow while it is read.
    for (let length = 0; ; ) {
      const { bytesRead } = await file.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0) return;
      length += bytesRead;
      if (length > limit) throw tooLong(length);
      await take(buffer.subarray(0, bytesRead));
    }
  } finally {
    await file.close();
  }
}
