import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { createClient, ModelHandle } from 'martingale';
import { type LeaseExecutor, leases } from 'martingale/workers';
import { fromSource } from '../../support/programs.ts';
import { startDelayedService } from '../delayed-process.ts';

export const environmentModule = new URL('./environment.ts', import.meta.url);
const command = fileURLToPath(new URL('../../../src/cli/main.ts', import.meta.url));

/** A service, a program's executor, and workers in processes of their own. */
export class Fleet implements AsyncDisposable {
  readonly executor: LeaseExecutor;
  readonly model: ModelHandle;
  readonly #service: AsyncDisposable;
  readonly #workers = new Set<ChildProcess>();

  private constructor(executor: LeaseExecutor, model: ModelHandle, service: AsyncDisposable) {
    this.executor = executor;
    this.model = model;
    this.#service = service;
  }

  static async open({ delayMs, leaseMs }: { delayMs: number; leaseMs: number }): Promise<Fleet> {
    const service = await startDelayedService(delayMs);
    const client = createClient({ baseUrl: service.baseUrl, apiKey: 'key' });
    const executor = await leases({
      environment: environmentModule,
      port: 0,
      leaseMs,
      maxLosses: 1000,
      onEvent: () => {},
    });
    return new Fleet(executor, new ModelHandle({ client, name: 'local/p/bench:step1' }), service);
  }

  start(concurrency: number): ChildProcess {
    const args = ['worker', fileURLToPath(environmentModule), '--url', this.executor.url];
    const child = spawn(
      process.execPath,
      [...fromSource, '--no-warnings', command, ...args, '--concurrency', `${concurrency}`],
      { stdio: 'ignore', env: { ...process.env, NODE_OPTIONS: '' } },
    );
    this.#workers.add(child);
    child.once('exit', () => this.#workers.delete(child));
    return child;
  }

  /** Waits until so many workers have joined. */
  async joined(count: number): Promise<void> {
    while (this.executor.stats().workers.length < count) await new Promise((next) => setTimeout(next, 20));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = [...this.#workers].map((worker) => once(worker, 'exit'));
    await this.executor.close();
    for (const worker of this.#workers) worker.kill();
    await Promise.all(ended);
    await this.model.client.close();
    await this.#service[Symbol.asyncDispose]();
  }
}
