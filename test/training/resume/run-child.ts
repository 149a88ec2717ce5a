import { spawn } from 'node:child_process';
import { appendFile, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createClient } from '../../../src/client/index.ts';
import { startService } from '../../../src/service/index.ts';
import { readJsonLines } from '../../support/files.ts';
import { fromSource, outcomeOf } from '../../support/programs.ts';
import { CoinEngine } from './coin-engine.ts';

export interface Kill {
  /** Number of the event after which the process dies. */
  event?: number;
  /** Client method; the process dies before or after its call number `at`. */
  call?: 'create' | 'log' | 'list' | 'delete';
  at?: number;
  when?: 'before' | 'after';
}

const program = fileURLToPath(new URL('child.ts', import.meta.url));

export async function startRuns() {
  const folder = await mkdtemp(join(tmpdir(), 'martingale-resume-'));
  const engine = new CoinEngine();
  const service = await startService({ engine, dataFolder: join(folder, 'data'), log: () => undefined });
  const { url: baseUrl, apiKey } = service;
  const client = createClient({ baseUrl, apiKey });

  /** Trains in its own process. */
  async function run(name: string, settings: object = {}) {
    const runDirectory = join(folder, name);
    const options = JSON.stringify({ baseUrl, apiKey, name, runDirectory, progress: false, ...settings });
    const child = spawn(process.execPath, [...fromSource, program, options]);
    const outcome = await outcomeOf(child);
    const lines = outcome.output.trimEnd().split('\n');
    return { ...outcome, events: lines.filter((line) => !line.startsWith('{')) };
  }

  return {
    engine,
    service: { baseUrl, apiKey },
    models: client.models,
    run,
    record: (name: string) => readRecord(join(folder, name)),
    tear: (name: string) => tearLastLines(join(folder, name)),
    /** How often the run's model was trained, whatever else the engine trains. */
    async trainings(name: string) {
      const { modelId } = JSON.parse(await readFile(join(folder, name, 'config.json'), 'utf8'));
      return engine.trainedFolders.filter((path) => path.includes(modelId)).length;
    },
    path: (name: string) => join(folder, name),
    async close() {
      await client.close();
      await service.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Fields that depend on the clock or are random ids. */
const changing = new Set([
  'seconds',
  'loopDelayMs',
  'loopHeldMs',
  'phases',
  'tokensPerSecond',
  'start_time',
  'duration_ms',
  'milliseconds',
  'created',
  'id',
  'system_fingerprint',
]);

const read = (path: string) =>
  readJsonLines(path, (key, value) => {
    if (changing.has(key) && (key !== 'id' || typeof value !== 'number')) return undefined;
    return typeof value === 'string' ? value.replace(/^local\/resume\/[^:]+/, 'model') : value;
  });

/** Metrics and trajectories of a run, without fields that depend on clock or chance. */
export async function readRecord(folder: string) {
  const names = (await readdir(join(folder, 'trajectories'))).sort();
  const trajectories: Record<string, unknown> = {};
  for (const name of names) trajectories[name] = await read(join(folder, 'trajectories', name));
  return { metrics: await read(join(folder, 'metrics.jsonl')), trajectories };
}

/** Simulates what a killed process may leave: a partial last line in any file that it appends to. */
async function tearLastLines(folder: string): Promise<void> {
  const journals = (await readdir(join(folder, 'trajectories'))).filter((name) => name.includes('journal'));
  for (const file of ['metrics.jsonl', 'events.jsonl', ...journals.map((name) => `trajectories/${name}`)])
    await appendFile(join(folder, file), '{"group":0,"rollo');
}
