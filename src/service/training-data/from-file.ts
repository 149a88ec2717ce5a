import { constants } from 'node:fs';
import { open, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { messageOf } from '../errors.ts';
import { type FoundData, type Limits, refuse } from './found-data.ts';
import type { TrainingDataSources } from './sources.ts';

const dataNames = ['train.jsonl', 'trajectories.jsonl'];
const metadataName = 'metadata.json';
const largestMetadata = 1024 ** 2;

const metadataSchema = z.looseObject({
  format: z.literal('jsonl').nullish(),
  num_trajectories: z.number().int().nullish(),
});

/** Reads the file that a `file:` URL names, or the data file of the folder that it names. */
export async function readFileUrl(
  url: URL,
  { folders }: TrainingDataSources,
  limits: Limits,
): Promise<FoundData> {
  if (folders.length === 0)
    throw refuse(
      url.href,
      'file: URLs are not allowed here: the operator has allowed no folder (serve --allow-data-folder). Upload the data instead',
    );
  const path = await toRealPath(pathOf(url), url, folders);
  if (!(await stat(path)).isDirectory())
    return { bytes: await readRegularFile(path, url, limits.bytes), examples: null };
  const inside = async (name: string) => {
    const file = await realpath(join(path, name)).catch(() => undefined);
    return file === undefined ? undefined : toRealPath(file, url, folders);
  };
  const found = (await Promise.all(dataNames.map(inside))).filter((file) => file !== undefined);
  const [file] = found;
  if (file === undefined || found.length > 1)
    throw refuse(
      url.href,
      `the folder must hold one of ${dataNames.join(' and ')}; it holds ${found.length === 0 ? 'neither' : 'both'}`,
    );
  const metadata = await inside(metadataName);
  return {
    bytes: await readRegularFile(file, url, limits.bytes),
    examples: metadata === undefined ? null : await countInMetadata(metadata, url),
  };
}

function pathOf(url: URL): string {
  try {
    return fileURLToPath(url);
  } catch (cause) {
    throw refuse(url.href, `is no path of this machine: ${messageOf(cause)}`);
  }
}

/** Where a path leads in the end. One that leads out of the allowed folders is answered like one that is not there. */
async function toRealPath(path: string, url: URL, folders: readonly string[]): Promise<string> {
  const real = await realpath(path).catch(() => undefined);
  if (real !== undefined && folders.some((folder) => real === folder || isInside(real, folder))) return real;
  throw refuse(
    url.href,
    `names nothing that may be read here; file: URLs may name what is in ${folders.join(', ')}`,
  );
}

const isInside = (path: string, folder: string) =>
  path.startsWith(folder.endsWith(sep) ? folder : folder + sep);

async function countInMetadata(path: string, url: URL): Promise<number | null> {
  const text = (await readRegularFile(path, url, largestMetadata)).toString('utf8');
  try {
    return metadataSchema.parse(JSON.parse(text)).num_trajectories ?? null;
  } catch (cause) {
    const reason = cause instanceof z.ZodError ? z.prettifyError(cause) : messageOf(cause);
    throw refuse(url.href, `its ${metadataName} is not as it should be: ${reason}`);
  }
}

async function readRegularFile(path: string, url: URL, limit: number): Promise<Buffer> {
  // Links were followed before; a pipe would keep the opening waiting.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch((cause: unknown) => {
    throw refuse(url.href, `cannot be read: ${messageOf(cause)}`);
  });
  try {
    const found = await file.stat();
    if (!found.isFile()) throw refuse(url.href, 'names no regular file');
    if (found.size > limit) throw refuse(url.href, `has ${found.size} bytes; at most ${limit} are taken`);
    return await file.readFile();
  } finally {
    await file.close();
  }
}
