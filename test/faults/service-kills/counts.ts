import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Json } from '../../service/harness.ts';
import type { Caller } from './caller.ts';
import type { Told } from './script.ts';

/**
 * What a service has in the end, with names in place of ids: any two runs of the script that lost nothing and did
 * nothing twice give the same. Throws where a job tells other events than those that were followed, or a repeated
 * request gets another answer than its first.
 */
export async function readBooks(caller: Caller, told: Told) {
  const models = [];
  for (const { id, ...model } of (await caller.get('/v1/preview/models')).data) {
    const steps = [];
    for (const { step, metrics } of (await caller.get(`/v1/preview/models/${id}/checkpoints`)).data)
      steps.push({ step, metrics: figuresOf(metrics), weights: await caller.download(id, step) });
    models.push(withNames({ ...model, steps }, told));
  }
  const jobs: Record<string, Json> = {};
  for (const [name, followed] of Object.entries(told.events)) {
    const path = `/v1/preview/training-jobs/${told.ids[name]}`;
    const isGone = name.endsWith('of the gone');
    if (!isGone) sameEvents(name, followed, (await caller.get(`${path}/events?limit=100`)).data);
    const { kind, status, step } = isGone ? {} : await caller.get(path);
    jobs[name] = { kind, status, step, events: followed.map(({ type, data }) => [type, figuresOf(data)]) };
  }
  await repeatAll(caller);
  return { models, jobs };
}

/** Removes what differs between runs: checkpoint ids, speed, and whether a cancelled job had begun. */
function figuresOf({ checkpoint_id, error_message, tokens_per_second, ...figures }: Json): Json {
  return error_message === undefined ? figures : { error_message: error_message.replace(/cancelled .*/, '') };
}

function sameEvents(name: string, followed: Json[], stored: Json[]): void {
  if (JSON.stringify(followed) === JSON.stringify(stored)) return;
  throw new Error(`${name}: followed ${JSON.stringify(followed)}, stored ${JSON.stringify(stored)}`);
}

/** Repeats all requests, except those whose key was deleted with its model: they would run again. */
async function repeatAll(caller: Caller): Promise<void> {
  for (const { answer, ...sent } of [...caller.answered]) {
    if (/gone|deletion/.test(sent.key ?? '')) continue;
    const { body } = await caller.send(sent);
    if (JSON.stringify(body) !== JSON.stringify(answer))
      throw new Error(`${sent.key}: ${JSON.stringify(answer)}, repeated: ${JSON.stringify(body)}`);
  }
}

/** All files and folders except the database, and what a kill left without a record. */
export function filesIn(dataFolder: string, told: Told): string[] {
  return readdirSync(dataFolder, { recursive: true, withFileTypes: true })
    .map((entry) => relative(dataFolder, join(entry.parentPath, entry.name)))
    .filter((path) => !path.includes('.sqlite') && !path.startsWith('quarantine'))
    .map((path) => withNames(path, told))
    .sort();
}

/** The groups in each log, as `gzip -dc` reads them. */
export function logsIn(dataFolder: string, told: Told): Record<string, string> {
  const logs: Record<string, string> = {};
  for (const [name, id] of Object.entries(told.ids)) {
    const folder = join(dataFolder, 'models', id, 'logs');
    for (const file of existsSync(folder) ? readdirSync(folder) : [])
      logs[`${name} ${file}`] = execFileSync('gzip', ['-dc', join(folder, file)], { encoding: 'utf8' });
  }
  return logs;
}

/** How many records there are of each kind, once the service is closed. */
export function countRecords(dataFolder: string): Record<string, unknown> {
  const database = new DatabaseSync(join(dataFolder, 'martingale.sqlite'), { readOnly: true });
  const counts: Record<string, unknown> = {};
  for (const table of [
    ...['models', 'checkpoints', 'jobs', 'events', 'uploads', 'logs', 'groups', 'idempotency_keys'],
  ])
    counts[table] = database.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n;
  counts.lastSteps = database.prepare('SELECT name, last_step FROM models ORDER BY sequence').all();
  database.close();
  return counts;
}

/** Replaces ids by the script's names. */
function withNames<Value>(value: Value, { ids }: Told): Value {
  let text = JSON.stringify(value);
  for (const [name, id] of Object.entries(ids)) text = text.replaceAll(id, `<${name}>`);
  return JSON.parse(text);
}
