import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fromSource, root } from '../../support/programs.ts';

export interface ProgramOptions {
  file: string;
  flags: readonly string[];
  execArgv?: readonly string[];
  env?: NodeJS.ProcessEnv;
}

/** A program of the repository in its own process, whose output is read as it arrives. */
export function startProgram({ file, flags, execArgv = [], env = {} }: ProgramOptions) {
  const child = spawn(process.execPath, [...fromSource, ...execArgv, file, ...flags], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const text = { stdout: '', stderr: '' };
  const heard = new EventTarget();
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (chunk) => {
      text[name] += chunk;
      heard.dispatchEvent(new Event('data'));
    });
  const ended = once(child, 'close').then(() => {
    heard.dispatchEvent(new Event('data'));
    return { code: child.exitCode, signal: child.signalCode, ...text };
  });
  let isOver = false;
  ended.then(() => {
    isOver = true;
  });
  return {
    child,
    ended,
    /** Waits until its output matches the pattern; returns all output. */
    async said(pattern: RegExp, name: 'stdout' | 'stderr' = 'stdout'): Promise<string> {
      while (!pattern.test(text[name])) {
        if (isOver) throw new Error(`It ended before it wrote ${pattern}: ${JSON.stringify(text)}`);
        await once(heard, 'data');
      }
      return text[name];
    },
  };
}

export type Program = ReturnType<typeof startProgram>;
