import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/files.ts';
import { special, tokensOf } from '../../support/scripted-engine.ts';
import { group, type Json, start, trajectory } from '../harness.ts';

const sampled = tokensOf('yes', special.end);
const trajectory_groups = [group(trajectory(1, sampled), trajectory(0, sampled)), group()];

/** A queued job in the data folder of a stopped service, without its payload. */
async function left() {
  const dataFolder = await temporaryFolder();
  const first = await start({ dataFolder });
  first.engine.hold = () => new Promise(() => {});
  const body = { model_id: (await first.createModel()).id, trajectory_groups };
  const { body: job } = await first.call('POST', '/v1/preview/training-jobs', body);
  await first.service.close();
  const folder = join(dataFolder, 'jobs');
  rmSync(join(folder, `${job.id}.jsonl.gz`));
  return { dataFolder, folder, jobId: String(job.id) };
}

const endOf = async (dataFolder: string, jobId: string): Promise<{ last: Json }> => {
  const { follow } = await start({ dataFolder });
  const events = await follow(jobId);
  return { last: events.at(-1) };
};

test('a job whose payload is missing fails with the reason', async () => {
  const { dataFolder, folder, jobId } = await left();
  const { last } = await endOf(dataFolder, jobId);
  expect(last).toMatchObject({
    type: 'training_failed',
    data: { error_message: expect.stringMatching(/no longer in the data folder.*Send the job again/) },
  });
  await expect.poll(() => readdirSync(folder)).toEqual([]);
});

test.each([
  ['is not gzip', Buffer.from('no gzip'), /incorrect header check/],
  ['is not JSON', gzipSync('{"messages_and_choices":[\n\n'), /line 1|JSON/],
])('a job whose payload %s fails with the reason', async (_, payload, message) => {
  const { dataFolder, folder, jobId } = await left();
  writeFileSync(join(folder, `${jobId}.jsonl.gz`), payload);
  const { last } = await endOf(dataFolder, jobId);
  expect(last).toMatchObject({
    type: 'training_failed',
    data: { error_message: expect.stringMatching(message) },
  });
  await expect.poll(() => readdirSync(folder)).toEqual([]);
});
