import { request } from 'node:http';
import { homedir } from 'node:os';
import { serialize } from 'node:v8';
import fc from 'fast-check';
import { runGroups } from 'martingale';
import { expect, it } from 'vitest';
import { environmentFiles } from '../../../src/rollout/leases/environment-version.ts';
import { cloneFormat } from '../../../src/rollout/leases/mailbox.ts';
import { receiveRollout } from '../../../src/rollout/sent/received.ts';
import { martingaleVersion } from '../../../src/util/version.ts';
import { testSeed } from '../../support/size.ts';
import { environment, joined, open, workHere } from './workers.ts';

/** A POST as any program can send it. */
function post(
  url: string,
  headers: Record<string, string>,
  body: string | Buffer,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

const json = { 'content-type': 'application/json' };

/** A worker by hand: it says of the rollouts that it is given what the test wants. */
async function joinByHand({ url, apiKey }: { url: string; apiKey: string }, name: string) {
  const headers = { ...json, authorization: `Bearer ${apiKey}` };
  const hello = {
    ...{ name, martingale: martingaleVersion, cloneFormat: cloneFormat(), environment: 'echoing' },
    ...{ files: await environmentFiles(environment), concurrency: 1 },
  };
  const { status, text } = await post(`${url}/workers`, headers, JSON.stringify(hello));
  if (status !== 200) return { status, text };
  const { worker } = JSON.parse(text);
  let from = 0;
  const send = (...messages: Uint8Array[]) => {
    const batch = serialize({ from, messages });
    from += messages.length;
    return post(
      `${url}/workers/${worker}/messages`,
      { ...headers, 'content-type': 'application/octet-stream' },
      batch,
    );
  };
  return { status, text, send };
}

it('a program without a key of its own makes one, which only this user finds', async () => {
  const { executor } = await open();
  expect(executor.apiKey).toMatch(/^[\w-]{32}$/);
  const hello = JSON.stringify({ name: 'thief' });
  expect(await post(`${executor.url}/workers`, json, hello)).toMatchObject({ status: 401 });
  const stranger = await workHere(['--url', executor.url], {
    env: { XDG_CACHE_HOME: '/nowhere', HOME: homedir() },
  });
  expect(stranger.code).toBe(1);
  expect(stranger.stderr).toContain('key is missing');
  const worker = workHere(['--url', executor.url]);
  await joined(executor, 1);
  await executor.close();
  expect((await worker).code).toBe(0);
});

it.each([
  ['another name for this machine', { host: 'evil.example:7410' }, 'only under 127.0.0.1'],
  ['a page of another site', { origin: 'https://evil.example' }, 'not pages of https://evil.example'],
])('a request by %s is refused, even with the key', async (_, headers, words) => {
  const { executor } = await open();
  const authorization = `Bearer ${executor.apiKey}`;
  const answer = await post(`${executor.url}/workers`, { ...json, ...headers, authorization }, '{}');
  expect([answer.status, answer.text]).toEqual([403, expect.stringContaining(words)]);
});

it('a worker that brings what is no result loses its rollout to another, and is given up at last', async () => {
  const { executor, model, events } = await open();
  const { default: echoing } = await import('./echoing.ts');
  const hostile = await joinByHand(executor, 'hostile');
  const running = runGroups({
    environment: echoing,
    executor,
    model,
    scenarios: [{ id: 0 }],
    rolloutsPerGroup: 1,
  });
  await expect.poll(() => executor.stats().running).toBe(1);
  await hostile.send?.(serialize({ type: 'ended', lease: 'x' }), Buffer.from('nonsense'), serialize(null));
  await expect.poll(() => executor.stats().workers).toEqual([]);
  expect(events).toEqual(['joined', 'invalid', 'invalid', 'invalid', 'refused']);
  expect(await joinByHand(executor, 'hostile')).toMatchObject({
    status: 409,
    text: expect.stringContaining('could not be read'),
  });
  const worker = workHere(['--url', executor.url]);
  expect((await running).counts).toMatchObject({ completed: 1 });
  await executor.close();
  expect((await worker).code).toBe(0);
});

const asked = { index: 0, attempt: 0, seed: 7 };
const trajectory = {
  ...{ messages_and_choices: [], reward: 0.5, metrics: {}, metadata: {}, logs: [] },
  record: {
    id: 'a',
    policy: null,
    seed: 7,
    turns: 0,
    milliseconds: 1,
    calls: [],
    observations: [],
    refused_calls: [],
  },
};
const valid = { ...asked, status: 'completed', reward: 0.5, outcome: 1, durationMs: 3, trajectory };

it.each<[string, object, RegExp]>([
  ['a forged reward', { reward: 1e10 }, /rewards are numbers from -1000000000 to 1000000000.*reward/s],
  ['a reward that is no number', { reward: Number.NaN }, /reward/],
  [
    'a forged reward of its trajectory',
    { trajectory: { ...trajectory, reward: 1e300 } },
    /trajectory\.reward is 1e\+300/,
  ],
  ['another rollout', { index: 3 }, /its index is 3, and 0 was asked for/],
  ['another seed', { seed: 8 }, /its seed is 8, and 7 was asked for/],
  ['no record', { trajectory: {} }, /record of a trajectory/],
  ['no trajectory', { trajectory: undefined }, /record of a trajectory/],
  ['an unknown end', { status: 'won' }, /status/],
  ['a field of its own', { admin: true }, /admin/],
])('a result with %s is refused by name', (_, change, words) => {
  expect(receiveRollout(valid, asked)).toMatchObject({ reward: 0.5 });
  expect(() => receiveRollout({ ...valid, ...change }, asked)).toThrow(words);
});

it('any value as a result, or in place of a part of one, is read or refused by name', () => {
  const parts = fc.constantFrom(
    'status',
    'reward',
    'outcome',
    'trajectory',
    'durationMs',
    'seats',
    'failure',
    'index',
  );
  fc.assert(
    fc.property(fc.anything(), parts, fc.boolean(), (value, part, isWhole) => {
      try {
        receiveRollout(isWhole ? value : { ...valid, [part]: value }, asked);
      } catch (error) {
        expect(error).toMatchObject({ code: 'invalid_result' });
      }
    }),
    { seed: testSeed, numRuns: 2000 },
  );
  fc.assert(
    fc.property(fc.anything(), fc.constantFrom(...Object.keys(trajectory.record)), (value, field) => {
      const record = { ...trajectory.record, [field]: value };
      try {
        receiveRollout({ ...valid, trajectory: { ...trajectory, record } }, asked);
      } catch (error) {
        expect(error).toMatchObject({ code: 'invalid_result' });
      }
    }),
    { seed: testSeed, numRuns: 2000 },
  );
});
