import { appendFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Caller } from './caller.ts';
import { callsOf, type Told } from './script.ts';
import type { Faults, World } from './world.ts';

const checkpointNotListed: Faults = {
  mode: 'kill-before',
  at: {
    name: 'commit update jobs, insert checkpoints, update models, insert events, delete job_runs',
    occurrence: 0,
  },
};

/**
 * A data folder with everything at once that kills can leave behind: a running job, weights without a record, and
 * partial files of every kind.
 */
export async function makeMess(world: World) {
  const service = world.service('mess', [checkpointNotListed]);
  const { dataFolder } = service;
  const caller = new Caller(service);
  const calls = callsOf(caller);
  const model = await calls.model('first');
  await calls.log('log', model, 'train');
  await calls.rl('rl', model, ['yes']);
  await service.bury(await service.running());
  const checkpoints = join('models', model, 'checkpoints');
  const stranger = crypto.randomUUID();
  for (const [file, content] of [
    [join(checkpoints, 'step-1.unfinished', 'model'), 'half'],
    [join(checkpoints, 'step-7', 'model'), 'of a checkpoint that was deleted'],
    [join(checkpoints, 'step-8.partial', 'model'), 'half'],
    [join('models', stranger, 'checkpoints', 'step-0.partial', 'model'), 'half a fork'],
    [join('models', stranger, 'logs', 'train.jsonl.gz'), 'of a model that was deleted'],
    [join('jobs', `${stranger}.jsonl.gz`), 'of a job that was not accepted'],
    [join('models', model, 'groups', `group-${'0'.repeat(64)}`), 'not acknowledged'],
    [join('incoming', stranger), 'half a body'],
    [join('uploads', `${'0'.repeat(64)}.jsonl`), 'not acknowledged'],
    [join('models', model, 'logs', 'val.jsonl.gz'), 'half a record'],
    ['write-check', 'half'],
  ] as const) {
    await mkdir(join(dataFolder, file, '..'), { recursive: true });
    await writeFile(join(dataFolder, file), content);
  }
  const database = new DatabaseSync(join(dataFolder, 'martingale.sqlite'), {
    enableForeignKeyConstraints: false,
  });
  database.exec(`
    INSERT INTO deleted_models VALUES ('${stranger}');
    INSERT INTO logs VALUES ('of a model that was deleted', '${stranger}', 'train', 0, 1, 1, 1, 'then');`);
  database.close();
  await appendFile(join(dataFolder, 'models', model, 'logs', 'train.jsonl.gz'), Buffer.from([31, 139, 8, 0]));

  /** Continues where the service died. */
  async function goOn(next: Caller): Promise<Told> {
    next.answered.push(...caller.answered);
    const told = { ids: { ...calls.told.ids }, events: { rl: await next.follow(calls.told.ids.rl ?? '') } };
    return told;
  }
  return { dataFolder, goOn };
}
