import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { special, tokensOf } from '../../support/scripted-engine.ts';
import { group, type Json, start, temporaryFolder, trajectory } from '../harness.ts';

const sampled = tokensOf('yes', special.end);
const trajectory_groups = [group(trajectory(1, sampled), trajectory(0, sampled)), group()];

/** A job that waits in a data folder of which the service has ended; its payload is gone. */
async function left() {
  const dataFolder = await temporaryFolder();
  const first = await start({ dataFolder });
  first.engine.hold = () => new Promise(() => {});
  const body = { model_id: (await first.createModel()).id, trajectory_groups };
  const { body: job } = await first.call('POST', '/v1/preview/training-jobs', body);
  await first.service.close();
  const folder = join(dataFolder, 'jobs');
  rmSync(join(folder, `${job.id}.jsonl.gz`));
  return { dataFolder, folder, body, jobId: String(job.id) };
}

const endOf = async (dataFolder: string, jobId: string): Promise<{ last: Json; trained: Json }> => {
  const { follow, engine } = await start({ dataFolder });
  const events = await follow(jobId);
  return { last: events.at(-1), trained: engine.trained };
};

test('a job that waits in an earlier data folder, with its request as it came, is trained', async () => {
  const { dataFolder, folder, body, jobId } = await left();
  writeFileSync(join(folder, `${jobId}.json.gz`), gzipSync(JSON.stringify(body)));
  const { last, trained } = await endOf(dataFolder, jobId);
  expect(last).toMatchObject({ type: 'training_ended', data: { step: 1 } });
  expect(trained).toHaveLength(1);
  expect(trained[0].datums).toHaveLength(2);
  await expect.poll(() => readdirSync(folder)).toEqual([]);
  expect(readdirSync(join(dataFolder, 'incoming'))).toEqual([]);
});

test.each([
  ['is gone', null],
  ['cannot be read', Buffer.from('no gzip')],
  ['is no JSON', gzipSync('{"trajectory_groups":[')],
])('a job whose payload %s fails, and says so', async (_, older) => {
  const { dataFolder, folder, jobId } = await left();
  if (older) writeFileSync(join(folder, `${jobId}.json.gz`), older);
  const { last } = await endOf(dataFolder, jobId);
  expect(last).toMatchObject({
    type: 'training_failed',
    data: { error_message: expect.stringMatching(/not in the data folder any more.*send the job again/) },
  });
  await expect.poll(() => readdirSync(folder)).toEqual([]);
});
