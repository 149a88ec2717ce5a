import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { root } from './programs.ts';

const run = promisify(execFile);

/** Several threads take half as much processor time again. */
const compile = (args: readonly string[]) =>
  run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '--singleThreaded', ...args]);

/** Type-checks a project; returns the compiler's output. */
export async function typeCheck(project: string): Promise<string> {
  try {
    const { stdout } = await compile(['--project', project]);
    return stdout;
  } catch (error) {
    return typeof error === 'object' && error !== null && 'stdout' in error
      ? String(error.stdout)
      : String(error);
  }
}

/**
 * `paths` of a project that imports martingale: to its declarations, which users have too, and which are made once for the
 * same sources. `npm run types` checks the sources; to check them again in each project takes three times as long.
 */
export async function martingalePaths(): Promise<Record<string, string[]>> {
  const types = join(root, '.martingale/types');
  const folder = join(types, await hashOfSources());
  if (!existsSync(folder)) {
    const own = `${folder}.${process.pid}`;
    await mkdir(types, { recursive: true });
    const earlier = await readdir(types);
    const project = ['--project', join(root, 'tsconfig.build.json')];
    await compile([...project, '--emitDeclarationOnly', '--noCheck', '--outDir', own]);
    // Another file of tests may have been faster.
    await rename(own, folder).catch(() => rm(own, { recursive: true }));
    for (const name of earlier)
      if (!name.includes('.')) await rm(join(types, name), { recursive: true, force: true });
  }
  const { exports }: { exports: Record<string, string | { types: string }> } = JSON.parse(
    await readFile(join(root, 'package.json'), 'utf8'),
  );
  return Object.fromEntries(
    Object.entries(exports).flatMap(([name, entry]) =>
      typeof entry === 'string'
        ? []
        : [[name.replace(/^\./, 'martingale'), [join(folder, entry.types.replace('./dist/', ''))]]],
    ),
  );
}

async function hashOfSources(): Promise<string> {
  const names = await readdir(join(root, 'src'), { recursive: true });
  const sources = names.filter((name) => /\.tsx?$/.test(name)).map((name) => join('src', name));
  const hash = createHash('sha256');
  for (const path of ['package-lock.json', 'tsconfig.json', 'tsconfig.build.json', ...sources.sort()])
    hash.update(`${path}\n`).update(await readFile(join(root, path)));
  return hash.digest('hex').slice(0, 16);
}
