import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { readJsonLines } from '../../support/files.ts';
import { outcomeOf } from '../../support/programs.ts';
import { readRecord } from '../../training/resume/run-child.ts';
import { type FaultPlan, type FaultPoint, underFaults } from '../driver/fault.ts';

const fileOf = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const program = {
  train: fileOf('../../training/resume/child.ts'),
  evaluate: fileOf('child.ts'),
  sft: fileOf('child.ts'),
};

export type Task = keyof typeof program;

export type Ended = Awaited<ReturnType<typeof outcomeOf>>;

export type Runs = Awaited<ReturnType<typeof startRuns>>;

/** A service in its own process, and runs of the harness in others, each with a fault plan. */
export async function startRuns() {
  const folder = await mkdtemp(join(tmpdir(), 'martingale-harness-kills-'));
  const dataFolder = join(folder, 'data');
  const apiKey = 'harness-kills';
  let service = await startChildService({ dataFolder, apiKey, port: 0 });
  const baseUrl = service.url;

  /** @param settings Options of `train`, or of the other tasks, over those of their programs. */
  async function run(
    name: string,
    {
      task = 'train',
      plan,
      ...settings
    }: { task?: Task; plan?: Omit<FaultPlan, 'root'>; [field: string]: unknown },
  ): Promise<Ended> {
    const runDirectory = join(folder, name);
    const faults = underFaults({ root: runDirectory, ...plan });
    const options = JSON.stringify({
      task,
      baseUrl,
      apiKey,
      name,
      runDirectory,
      progress: false,
      ...settings,
    });
    const child = spawn(process.execPath, [...faults.execArgv, program[task], options], { env: faults.env });
    return outcomeOf(child);
  }

  /** The durable steps of a run, in order. */
  async function pointsOf(name: string, settings: object): Promise<{ points: FaultPoint[]; ended: Ended }> {
    const journal = join(folder, `${name}.points`);
    const ended = await run(name, { ...settings, plan: { journal } });
    return { points: await readJsonLines(journal), ended };
  }

  return {
    run,
    pointsOf,
    path: (name: string) => join(folder, name),
    record: (name: string) => readRecord(join(folder, name)),
    files: async (name: string) => (await readdir(join(folder, name), { recursive: true })).sort(),
    lines: (name: string, file: string) => readJsonLines(join(folder, name, file)),
    counts: (name: string) => readBooks({ dataFolder, folder, name }),
    /** Kills the service and starts it again at the same address. */
    async restartService() {
      await service.kill();
      service = await startChildService({ dataFolder, apiKey, port: Number(new URL(baseUrl).port) });
    },
    serviceErrors: () => service.errors(),
    async close() {
      await service.kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function startChildService(options: { dataFolder: string; apiKey: string; port: number }) {
  const child = spawn(process.execPath, [fileOf('service.ts'), JSON.stringify(options)]);
  const ended = once(child, 'exit');
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    errors += chunk;
  });
  for await (const url of createInterface(child.stdout))
    return {
      url,
      errors: () => errors,
      kill: async () => {
        child.kill('SIGKILL');
        await ended;
      },
    };
  throw new Error(`The service ended before it listened: ${errors}`);
}

/** The service's records of a model. Nothing may be there twice. */
async function readBooks({ dataFolder, folder, name }: { dataFolder: string; folder: string; name: string }) {
  // The service has locked its database, so a copy is read, including its write-ahead log.
  const copy = await mkdtemp(join(folder, 'counts-'));
  for (const file of ['martingale.sqlite', 'martingale.sqlite-wal'])
    await copyFile(join(dataFolder, file), join(copy, file)).catch(() => undefined);
  const database = new DatabaseSync(join(copy, 'martingale.sqlite'));
  const rows = (sql: string) => database.prepare(sql).all(name).map(Object.values);
  const ofModel = 'model_id = (SELECT id FROM models WHERE name = ?)';
  const counts = {
    jobs: rows(`SELECT kind, status, step FROM jobs WHERE ${ofModel} ORDER BY sequence`),
    checkpoints: rows(`SELECT step FROM checkpoints WHERE ${ofModel} ORDER BY step`).flat(),
    logs: rows(
      `SELECT split, sum(groups), sum(trajectories) FROM logs WHERE ${ofModel} GROUP BY split ORDER BY split`,
    ),
    gradientSteps: rows(
      `SELECT count(*) FROM events WHERE type = 'gradient_step'
        AND job_id IN (SELECT id FROM jobs WHERE ${ofModel})`,
    ).flat(),
  };
  database.close();
  await rm(copy, { recursive: true });
  return counts;
}
