import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Path of the repository. */
export const root = fileURLToPath(new URL('../../', import.meta.url));

/** Runs a program of the repository as `npx tsx` would, and gives its standard output. */
export async function runProgram(
  file: string,
  { args = [], env = {} }: { args?: string[]; env?: Record<string, string> } = {},
): Promise<string> {
  const { stdout } = await run(process.execPath, ['--import', 'tsx', file, ...args], {
    cwd: root,
    env: { ...process.env, ...env },
  });
  return stdout;
}

/** Type-checks a project; gives what the compiler has to say. */
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
