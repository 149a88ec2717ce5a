import { Readable } from 'node:stream';
import { type Command, CommanderError } from 'commander';
import { vi } from 'vitest';
import { createProgram } from '../../src/cli/program.ts';
import { describeFailure } from '../../src/cli/program-end.ts';

export interface Said {
  stdout: string;
  stderr: string;
  /** Exit status. */
  code: number;
}

/**
 * Runs a command of martingale in this process, to its end, which takes a small part of the time of a process of its own.
 * `input`: lines of standard input. Not for commands that wait for a signal. One at a time.
 */
export async function command(
  args: readonly string[],
  env: Record<string, string> = {},
  input: readonly string[] = [],
): Promise<Said> {
  const said: Said = { stdout: '', stderr: '', code: 0 };
  const listen = (name: 'stdout' | 'stderr') =>
    vi.spyOn(process[name], 'write').mockImplementation((...written: unknown[]) => {
      said[name] += String(written[0]);
      const done = written.at(-1);
      if (typeof done === 'function') process.nextTick(() => done());
      return true;
    });
  const spies = [listen('stdout'), listen('stderr')];
  const listeners = process.listenerCount('SIGINT');
  const stdin = Object.getOwnPropertyDescriptor(process, 'stdin') ?? {};
  const lines = Readable.from(input.map((line) => `${line}\n`));
  Object.defineProperty(process, 'stdin', { value: lines, configurable: true });
  const before = Object.keys(env).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, env);
  try {
    await withoutExits(await createProgram(args[0])).parseAsync(args, { from: 'user' });
  } catch (error) {
    // Commander has said what is wrong.
    if (!(error instanceof CommanderError)) said.stderr += `${describeFailure(error)}\n`;
    said.code = 1;
  } finally {
    for (const spy of spies) spy.mockRestore();
    Object.defineProperty(process, 'stdin', stdin);
    for (const [name, value] of before)
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    said.code ||= Number(process.exitCode ?? 0);
    process.exitCode = undefined;
  }
  if (process.listenerCount('SIGINT') > listeners)
    throw new Error(`${args.join(' ')} still listens for Ctrl-C.`);
  return said;
}

/** What it prints. @throws Error with all that it said if its exit status is not 0. */
export async function output(args: readonly string[], env?: Record<string, string>): Promise<string> {
  const said = await command(args, env);
  if (said.code !== 0) throw Object.assign(new Error(`${said.stderr}${said.stdout}`), said);
  return said.stdout;
}

function withoutExits(program: Command): Command {
  program.exitOverride();
  for (const each of program.commands) withoutExits(each);
  return program;
}
