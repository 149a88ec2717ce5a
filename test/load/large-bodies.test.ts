import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { callsTo } from '../service/harness.ts';
import { temporaryFolder } from '../support/files.ts';
import { testScale } from '../support/size.ts';
import { type LargeBody, largeJob, largeUpload } from './large-bodies.ts';
import { ask, type ChildService, send, startChild } from './large-client.ts';

const smallBytes = 8e6;
const largeBytes = 16e6 * testScale;
/** Far less than a body parsed in one piece takes: the service holds only the tokens of a job, a fifth of it. */
const heapMiB = (bytes: number) => Math.ceil(72 + (0.3 * bytes) / 1e6);
const jobs = '/v1/preview/training-jobs';

async function running(
  bytes: number,
  more = 0,
): Promise<{ child: ChildService; modelId: string; dataFolder: string }> {
  const dataFolder = await temporaryFolder();
  const child = await startChild({ dataFolder, contextLength: 2 ** 17, heapMiB: heapMiB(bytes) + more });
  onTestFinished(() => child.stop());
  const { body } = await ask(child.url, '/v1/preview/models', {
    project: 'p',
    name: 'm',
    base_model: 'scripted-tiny',
  });
  return { child, modelId: idOf(body), dataFolder };
}

function idOf(body: unknown): string {
  if (typeof body !== 'object' || body === null || !('id' in body)) throw new Error(JSON.stringify(body));
  return String(body.id);
}

/** Sends small requests, one after another, while the work lasts; each must be answered. */
async function beside<Result>({ url }: ChildService, work: Promise<Result>): Promise<Result> {
  let done = false;
  const small = (async () => {
    const messages = [{ role: 'user', content: 'hi' }];
    while (!done) {
      expect((await ask(url, '/v1/health')).status).toBe(200);
      expect((await ask(url, '/v1/chat/completions', { model: 'scripted-tiny', messages })).status).toBe(200);
    }
  })();
  try {
    return await work;
  } finally {
    done = true;
    await small;
  }
}

const ended = async (child: ChildService, jobId: string) => (await callsTo(child.url).follow(jobId)).at(-1);

const tokensIn = (job: LargeBody, tokens: number) => Math.floor(job.bytes / (tokens * 100)) * tokens;

const small = { bytes: smallBytes, more: 0, options: {} };
const large = { bytes: largeBytes, more: 0, options: { tags: ['long'] } };
for (const { what, bytes, tokens, trajectoriesOfGroup, more, options } of [
  { ...small, what: 'of 8 MB', tokens: 440, trajectoriesOfGroup: 8 },
  { ...large, what: 'of many small groups', tokens: 440, trajectoriesOfGroup: 8 },
  {
    ...large,
    what: 'in a single group',
    tokens: 440,
    trajectoriesOfGroup: Math.min(4000, Math.ceil(largeBytes / 36_000)),
  },
  { ...large, what: 'of long trajectories', tokens: 50_000, trajectoriesOfGroup: 4, more: 32 },
])
  test(`a large training job ${what} is stored and trained with little memory`, options, async () => {
    const { child, modelId, dataFolder } = await running(bytes, more);
    const job = largeJob({ modelId, bytes, tokens, trajectoriesOfGroup });
    const key = { 'idempotency-key': 'large' };
    const accepted = await beside(child, send(child.url + jobs, job, key));
    expect(accepted.status).toBe(200);
    expect(await beside(child, ended(child, idOf(accepted.body)))).toMatchObject({
      type: 'training_ended',
      data: { step: 1 },
    });
    expect((await child.figures()).trainedTokens).toBeGreaterThan(tokensIn(job, tokens) / 2);
    expect(await send(child.url + jobs, job, key)).toEqual(accepted);
    const other = largeJob({ modelId, bytes, tokens, trajectoriesOfGroup, fields: { more: null } });
    expect((await send(child.url + jobs, other, key)).status).toBe(409);
    for (const folder of ['jobs', 'incoming']) expect(readdirSync(join(dataFolder, folder))).toEqual([]);
  });

test('large logs and uploads are accepted with little memory', { tags: ['long'] }, async () => {
  const bytes = largeBytes;
  const { child, modelId, dataFolder } = await running(bytes);
  const logged = largeJob({
    modelId,
    bytes,
    tokens: 440,
    trajectoriesOfGroup: 8,
    fields: { split: 'train' },
  });
  const answer = await beside(child, send(`${child.url}/v1/preview/models/${modelId}/log`, logged));
  expect(answer).toMatchObject({ status: 200, body: { split: 'train' } });
  const uploaded = await beside(child, send(`${child.url}/v1/preview/uploads`, largeUpload(bytes, 3000)));
  expect(uploaded.status).toBe(200);
  expect(readdirSync(join(dataFolder, 'uploads'))).toHaveLength(1);
  expect(readdirSync(join(dataFolder, 'incoming'))).toEqual([]);
});
