import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** Path of the repository. */
export const root = fileURLToPath(new URL('../../', import.meta.url));

/** Flags of Node for a program of the repository that imports `martingale` by name. */
export const fromSource: readonly string[] = ['--import', new URL('from-source.ts', import.meta.url).href];

const run = promisify(execFile);

/** Runs a program of the repository; returns its standard output. */
export async function runProgram(
  file: string,
  { args = [], env = {} }: { args?: string[]; env?: Record<string, string> } = {},
): Promise<string> {
  const { stdout } = await run(process.execPath, [...fromSource, file, ...args], {
    cwd: root,
    env: { ...process.env, ...env },
  });
  return stdout;
}

/** Type-checks a project; returns the compiler's output. */
export async function typeCheck(project: string): Promise<string> {
  const compiler = join(root, 'node_modules/typescript/bin/tsc');
  try {
    const { stdout } = await run(process.execPath, [compiler, '--project', project]);
    return stdout;
  } catch (error) {
    return typeof error === 'object' && error !== null && 'stdout' in error
      ? String(error.stdout)
      : String(error);
  }
}
