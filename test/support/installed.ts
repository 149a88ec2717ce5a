import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { root } from './programs.ts';

const run = promisify(execFile);

/**
 * Installs packages that this repository does not have, because they are large, into a folder of `node_modules/.cache`,
 * once. Gives the path of their `node_modules`; undefined, with a line that says so, without the registry.
 */
export async function installedIn(
  folder: string,
  dependencies: Record<string, string>,
): Promise<string | undefined> {
  const path = join(root, 'node_modules/.cache', folder);
  await mkdir(path, { recursive: true });
  await writeFile(join(path, 'package.json'), JSON.stringify({ private: true, dependencies }));
  const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline'];
  try {
    await run('npm', ['install', ...flags], { cwd: path });
    return join(path, 'node_modules');
  } catch (error) {
    const what = Object.keys(dependencies).join(', ');
    console.warn(`NOT RUN: the tests of ${what}. ${error instanceof Error ? error.message : error}`);
    return undefined;
  }
}
