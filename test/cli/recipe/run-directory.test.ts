import { existsSync } from 'node:fs';
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { createRunDirectory, prepareResume } from '../../../src/cli/recipe/run-directory.ts';
import { temporaryFolder } from '../../support/files.ts';

describe('the run directory of a recipe', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await temporaryFolder();
  });

  it('is created if it is missing, and used if it is empty', async () => {
    await createRunDirectory(join(folder, 'runs', 'one'));
    await createRunDirectory(join(folder, 'runs', 'one'));
    expect((await stat(join(folder, 'runs', 'one'))).isDirectory()).toBe(true);
  });

  it('is refused with a remedy if it is not empty or cannot be created', async () => {
    await writeFile(join(folder, 'config.json'), '{}');
    await expect(createRunDirectory(folder)).rejects.toThrow(
      /is not empty. Use --resume to continue its run, choose another with --run-directory/,
    );
    await expect(createRunDirectory(join(folder, 'config.json', 'run'))).rejects.toThrow(
      /cannot be created: ENOTDIR.*Choose another with --run-directory/,
    );
    // Node's recursive mkdir never returns here.
    if (existsSync('/proc/self'))
      await expect(createRunDirectory('/proc/nope/run')).rejects.toThrow(/cannot be created: ENOENT/);
  });

  it('is continued if its training had begun', async () => {
    await mkdir(join(folder, 'training'));
    await mkdir(join(folder, 'service'));
    await writeFile(join(folder, 'training', 'config.json'), '{}');
    expect(await prepareResume(folder, { ownService: true })).toBe(true);
    expect(await readdir(folder)).toEqual(['service', 'training']);
  });

  it('starts again if it was stopped before its training', async () => {
    await mkdir(join(folder, 'service'));
    await expect(prepareResume(folder, { ownService: false })).rejects.toThrow(/no training to continue/);
    expect(await prepareResume(folder, { ownService: true })).toBe(false);
    expect(await readdir(folder)).toEqual([]);
  });

  it('starts again if it was stopped before anything was written', async () => {
    for (const ownService of [false, true]) expect(await prepareResume(folder, { ownService })).toBe(false);
  });

  it('is refused for --resume without a run', async () => {
    const missing = prepareResume(join(folder, 'none'), { ownService: true });
    await expect(missing).rejects.toThrow(/Leave out --resume/);
  });
});
