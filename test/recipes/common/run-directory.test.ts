import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { claimRunDirectory } from '../../../recipes/common/run-directory.ts';

describe('the run directory of a recipe', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'recipe-'));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it('is made where there is none, and taken where it is empty', async () => {
    await claimRunDirectory(join(folder, 'runs', 'one'));
    await claimRunDirectory(join(folder, 'runs', 'one'));
    expect((await stat(join(folder, 'runs', 'one'))).isDirectory()).toBe(true);
  });

  it('is refused with a remedy where it is used, or cannot be made', async () => {
    await writeFile(join(folder, 'config.json'), '{}');
    await expect(claimRunDirectory(folder)).rejects.toThrow(
      /is not empty. Choose another with --run-directory/,
    );
    await expect(claimRunDirectory(join(folder, 'config.json', 'run'))).rejects.toThrow(
      /cannot be made: ENOTDIR.*Choose another with --run-directory/,
    );
  });
});
