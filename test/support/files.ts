import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, onTestFinished } from 'vitest';

const newPath = () => join(tmpdir(), `martingale-${randomUUID()}`);
const remove = (folder: string) => rm(folder, { recursive: true, force: true });

/** A new folder, deleted after the current test. */
export async function temporaryFolder(): Promise<string> {
  const folder = newPath();
  onTestFinished(() => remove(folder));
  await mkdir(folder);
  return folder;
}

/** Path of a folder that exists while the tests of the current file or `describe` run. */
export function sharedFolder(): string {
  const folder = newPath();
  beforeAll(async () => void (await mkdir(folder)));
  afterAll(() => remove(folder));
  return folder;
}

/** The JSON values in the lines of a file. */
export const readJsonLines = async (path: string, revive?: (key: string, value: unknown) => unknown) =>
  (await readFile(path, 'utf8'))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line, revive));
