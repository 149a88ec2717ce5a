import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { startService } from '../../../src/service/index.ts';
import { readJsonLines } from '../../support/files.ts';
import { type FaultPlan, type FaultPoint, underFaults } from '../driver/fault.ts';
import { type EngineName, openEngine } from './engines.ts';

const program = fileURLToPath(new URL('program.ts', import.meta.url));
export const apiKey = 'service-kills';

export type Faults = Omit<FaultPlan, 'root' | 'journal'>;

export type World = Awaited<ReturnType<typeof openWorld>>;

/** Temporary folders for services. */
export async function openWorld() {
  const folder = await mkdtemp(join(tmpdir(), 'martingale-service-kills-'));
  return {
    /** Data folder of the service of this name. */
    dataFolder: (name: string) => join(folder, name),
    service: (name: string, plans: readonly Faults[], engine: EngineName = 'chain') =>
      new MortalService({ folder, name, plans, engine }),
    close: () => rm(folder, { recursive: true, force: true }),
  };
}

interface MortalOptions {
  folder: string;
  name: string;
  plans: readonly Faults[];
  engine: EngineName;
}

interface Running {
  url: string;
  /** Null if it runs in this process. */
  died: Promise<void> | null;
  stop: () => Promise<void>;
}

/**
 * A service that is started again whenever it has died: in processes of their own under the given plans, one after
 * another, and in this process once they are through.
 */
export class MortalService {
  readonly dataFolder: string;
  /** Number of its processes that were killed. */
  kills = 0;
  readonly #engine: EngineName;
  readonly #journal: string;
  readonly #plans: Faults[];
  #starting: Promise<Running> | null = null;
  #up: Running | null = null;

  constructor({ folder, name, plans, engine }: MortalOptions) {
    this.#engine = engine;
    this.dataFolder = join(folder, name);
    this.#journal = join(folder, `${name}.points`);
    this.#plans = [...plans];
  }

  /** The running process; starts one if there is none. */
  running(): Promise<Running> {
    this.#starting ??= this.#start();
    return this.#starting;
  }

  /** Call it after a missing answer. Resolves once the process is known to be dead. */
  async bury(running: Running): Promise<void> {
    if (!running.died) throw new Error('A service that was not killed gave no answer.');
    await running.died;
    if (this.#up !== running) return;
    this.#up = null;
    this.#starting = null;
  }

  /** Stops it for good. */
  async close(): Promise<void> {
    this.#plans.length = 0;
    await this.#starting?.catch(() => {});
    await this.#up?.stop();
    this.#up = null;
  }

  /** The durable steps of all its processes. */
  points(): Promise<FaultPoint[]> {
    return readJsonLines(this.#journal);
  }

  async #start(): Promise<Running> {
    this.#up = await this.#startNext();
    return this.#up;
  }

  async #startNext(): Promise<Running> {
    for (let plan = this.#plans.shift(); plan; plan = this.#plans.shift()) {
      const child = await this.#startChild(plan);
      if (child) return child;
    }
    const { dataFolder } = this;
    const engine = await openEngine(this.#engine, `${dataFolder}-engine`);
    const service = await startService({ engine, dataFolder, apiKey, closeTimeoutMs: 100 });
    const stop = async () => {
      await service.close();
      await engine.close();
    };
    return { url: service.url, died: null, stop };
  }

  /** Resolves to null if it died before it listened. */
  async #startChild(plan: Faults): Promise<Running | null> {
    const faults = underFaults({ root: this.dataFolder, journal: this.#journal, ...plan });
    const options = JSON.stringify({ dataFolder: this.dataFolder, apiKey, engine: this.#engine });
    const child = spawn(process.execPath, [...faults.execArgv, program, options], {
      env: faults.env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const errors = text(child.stderr);
    const died = once(child, 'exit').then(async ([code, signal]) => {
      if (signal !== 'SIGKILL' && code !== 0)
        throw new Error(`The service ended with ${code}: ${await errors}`);
      if (signal === 'SIGKILL') this.kills++;
    });
    died.catch(() => {});
    const stop = async () => {
      child.kill('SIGTERM');
      await died;
    };
    for await (const url of createInterface(child.stdout)) return { url, died, stop };
    await died;
    return null;
  }
}
