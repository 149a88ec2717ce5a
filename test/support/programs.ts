import { type ChildProcessByStdio, execFile } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
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

/** What a process prints, and how it ends. `result` is its last printed line, if that is a JSON object. */
export async function outcomeOf(child: ChildProcessByStdio<null | Writable, Readable, Readable>) {
  const [output, errors, [code, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ]);
  const last = output.trimEnd().split('\n').at(-1) ?? '';
  const result = last.startsWith('{') ? JSON.parse(last) : null;
  return { output, errors, result, code, killed: signal === 'SIGKILL' };
}
