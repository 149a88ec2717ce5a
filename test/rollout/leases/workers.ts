import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ModelHandle } from 'martingale';
import { type LeaseExecutor, leases } from 'martingale/workers';
import { onTestFinished } from 'vitest';
import { type FakePolicy, startFakeService } from '../../model/fake-service.ts';
import { command, type Said } from '../../support/command.ts';
import { fromSource, root } from '../../support/programs.ts';

export const environment = new URL('./echoing.ts', import.meta.url);

type Options = Partial<Parameters<typeof leases>[0]>;

const echo: FakePolicy = ({ messages }) => ({ text: `re: ${String(messages.at(-1)?.content)}` });

/** A service and a program with its executor. `events` is what happened to workers. */
export async function open(options: Options = {}, policy: FakePolicy = echo) {
  const service = await startFakeService({ policy });
  onTestFinished(() => service[Symbol.asyncDispose]());
  const events: string[] = [];
  const executor = await leases({
    environment,
    port: 0,
    onEvent: ({ type }) => events.push(type),
    ...options,
  });
  onTestFinished(() => executor.close());
  const model = new ModelHandle({ client: service.client, name: 'local/p/n:step1' });
  return { service, executor, model, events };
}

export interface TestWorker {
  process: ChildProcess;
  /** What it has printed. */
  lines(): string;
  /** Its exit code, or the signal that ended it. */
  ended: Promise<number | string>;
}

interface WorkerOptions {
  /** Path of the module of its environment. */
  file?: string;
  env?: Record<string, string>;
}

const flagsOf = (args: readonly string[], file = fileURLToPath(environment)) => [
  ...['worker', file, '--wait', '20'],
  ...args,
];

/** A worker in this process, which starts at once; resolves at its end. One at a time. */
export const workHere = (args: readonly string[], { file, env }: WorkerOptions = {}): Promise<Said> =>
  command(flagsOf(args, file), env);

/** A worker in a process of its own. */
export function startWorker(args: readonly string[], { file, env }: WorkerOptions = {}): TestWorker {
  const child = spawn(
    process.execPath,
    [...fromSource, join(root, 'src/cli/main.ts'), ...flagsOf(args, file)],
    { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (text += data));
  const ended = once(child, 'exit').then(([code, signal]) => code ?? signal);
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { process: child, lines: () => text, ended };
}

/** Resolves when the executor has so many workers. */
export async function joined(executor: LeaseExecutor, count: number): Promise<void> {
  while (executor.stats().workers.length !== count) await new Promise((resolve) => setTimeout(resolve, 10));
}
