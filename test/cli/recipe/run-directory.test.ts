import { existsSync } from 'node:fs';
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { claimRunDirectory, takeUpRunDirectory } from '../../../src/cli/recipe/run-directory.ts';
import { temporaryFolder } from '../../support/files.ts';

describe('the run directory of a recipe', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await temporaryFolder();
  });

  it('is made where there is none, and taken where it is empty', async () => {
    await claimRunDirectory(join(folder, 'runs', 'one'));
    await claimRunDirectory(join(folder, 'runs', 'one'));
    expect((await stat(join(folder, 'runs', 'one'))).isDirectory()).toBe(true);
  });

  it('is refused with a remedy where it is used, or cannot be made', async () => {
    await writeFile(join(folder, 'config.json'), '{}');
    await expect(claimRunDirectory(folder)).rejects.toThrow(
      /is not empty. Go on with the run in it with --resume, choose another with --run-directory/,
    );
    await expect(claimRunDirectory(join(folder, 'config.json', 'run'))).rejects.toThrow(
      /cannot be made: ENOTDIR.*Choose another with --run-directory/,
    );
    // Where Node's own recursive mkdir would never return.
    if (existsSync('/proc/self'))
      await expect(claimRunDirectory('/proc/nope/run')).rejects.toThrow(/cannot be made: ENOENT/);
  });

  it('is gone on with where its training had begun', async () => {
    await mkdir(join(folder, 'training'));
    await mkdir(join(folder, 'service'));
    await writeFile(join(folder, 'training', 'config.json'), '{}');
    expect(await takeUpRunDirectory(folder, { ownService: true })).toBe(true);
    expect(await readdir(folder)).toEqual(['service', 'training']);
  });

  it('begins again where it was stopped before its training', async () => {
    await mkdir(join(folder, 'service'));
    await expect(takeUpRunDirectory(folder, { ownService: false })).rejects.toThrow(/no training to go on/);
    expect(await takeUpRunDirectory(folder, { ownService: true })).toBe(false);
    expect(await readdir(folder)).toEqual([]);
  });

  it('is refused where it holds no run', async () => {
    await expect(takeUpRunDirectory(folder, { ownService: true })).rejects.toThrow(/Leave --resume out/);
  });
});
