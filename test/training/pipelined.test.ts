import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { generateText } from 'ai';
import { defineEnvironment, type RunEvent, ScenarioSet, train } from 'martingale';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { type FakePolicy, type FakeServiceOptions, startFakeService } from '../model/fake-service.ts';
import { temporaryFolder } from '../support/files.ts';

const environment = defineEnvironment({
  name: 'coin toss',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ scenario: { id }, model, seed }) =>
    (await generateText({ model: model.languageModel, prompt: `${id}:${seed}` })).text,
  rewards: { success: ({ outcome }) => Number(outcome) },
});

const hash = (value: string) => createHash('sha256').update(value).digest()[0] ?? 0;
/** Depends only on prompt and checkpoint, not on timing. */
const coin: FakePolicy = ({ messages, model }) => ({
  text: String(hash(`${model} ${messages[0]?.content}`) % 2),
});

async function open(options: Partial<FakeServiceOptions> = {}) {
  const service = await startFakeService({ policy: coin, ...options });
  const settings = {
    environment,
    scenarios: [0, 1, 2, 3, 4, 5, 6, 7].map((id) => ({ id })),
    client: service.client,
    model: { project: 'shop', name: 'desk', baseModel: 'tiny' },
    steps: 4,
    groupsPerStep: 2,
    rolloutsPerGroup: 4,
    runDirectory: join(await temporaryFolder(), 'run'),
  } as const;
  return { service, settings };
}

const modelsAsked = (service: Awaited<ReturnType<typeof startFakeService>>) =>
  service.requests.map(({ model }) => Number(String(model).split(':step')[1]));

test('rollouts of the next step run while a job trains, from a checkpoint within the bound', async () => {
  const enough = Promise.withResolvers<void>();
  const events: string[] = [];
  const { service, settings } = await open({
    // The request of the first job is not answered until all rollouts of the second step have ended.
    beforeJob: () => enough.promise,
  });
  await using _ = service;
  const onEvent = (event: RunEvent) => {
    if (event.type === 'rollouts' && event.done === event.total) events.push(`rollouts ${event.step}`);
    if (event.type === 'job' && event.status === 'ended') events.push(`job ${event.step}`);
    if (event.type === 'rollouts' && event.step === 1 && event.done === event.total) enough.resolve();
  };
  const result = await train({ ...settings, maxStaleness: 1, onEvent });
  expect(result.finalStep).toBe(4);
  expect(events.indexOf('rollouts 1')).toBeLessThan(events.indexOf('job 0'));
  expect(events.filter((event) => event.startsWith('job'))).toEqual(['job 0', 'job 1', 'job 2', 'job 3']);
  expect(result.reports.map(({ staleness }) => staleness.max)).toEqual([0, 1, 1, 1]);
  expect(modelsAsked(service).sort()).toEqual([0, 0, 1, 2].flatMap((step) => Array(8).fill(step)));
  // Checkpoints that steps in flight sample from stay, regardless of `keepCheckpoints`.
  expect(result.reports.map(({ failed }) => failed)).toEqual([0, 0, 0, 0]);
  expect(result.counts).toEqual({ dispatched: 32, completed: 32, failed: 0, cancelled: 0 });
});

test('checkpoints that steps in flight sample from are not deleted', async () => {
  const { service, settings } = await open();
  await using _ = service;
  const seen: number[][] = [];
  const onEvent = (event: RunEvent) => {
    if (event.type === 'step') seen.push([...service.steps()]);
  };
  const steps = 6;
  const result = await train({ ...settings, steps, maxStaleness: 3, keepCheckpoints: 1, onEvent });
  // After step t, steps t+1 to t+3 sample from t-2 and later ones.
  for (const [step, there] of seen.entries())
    for (const needed of [step - 2, step - 1, step]) if (needed >= 0) expect(there).toContain(needed);
  expect(Math.max(...result.reports.map(({ staleness }) => staleness.max))).toBe(3);
});

test('a straggler trains, and no finished group is discarded', async () => {
  const late = Promise.withResolvers<void>();
  const { service, settings } = await open({
    policy: async (request) => {
      const prompt = String(request.messages[0]?.content);
      // One rollout of the second step, whose groups have the third and the fourth scenario, ends only after the first step.
      if (/^[23]:/.test(prompt) && !straggler.request) {
        straggler.request = prompt;
        await late.promise;
      }
      return coin(request);
    },
  });
  const straggler: { request?: string } = {};
  await using _ = service;
  const onEvent = (event: RunEvent) => event.type === 'step' && event.step === 0 && late.resolve();
  const scenarios = ScenarioSet.of(settings.scenarios);
  const result = await train({ ...settings, scenarios, steps: 3, concurrency: 8, maxStaleness: 1, onEvent });
  const trained = JSON.stringify(service.jobs[1]?.body.trajectory_groups);
  expect(straggler.request).toBeDefined();
  expect(trained).toContain(straggler.request);
  expect(result.reports.map(({ completed }) => completed)).toEqual([8, 8, 8]);
});

test('the same seed gives the same run, whatever the timing', async () => {
  const bodies: unknown[] = [];
  for (const [salt, concurrency] of [
    ['a', 64],
    ['b', 3],
    ['c', 1],
  ] as const) {
    const { service, settings } = await open({
      policy: async (request) => {
        for (let turn = hash(`${salt} ${request.messages[0]?.content}`); turn > 0; turn--) await nextTurn();
        return coin(request);
      },
      beforeJob: async () => {
        for (let turn = hash(salt) * 4; turn > 0; turn--) await nextTurn();
      },
    });
    await using _ = service;
    await train({ ...settings, maxStaleness: 2, concurrency });
    const sampled = service.jobs.map(({ body }) =>
      JSON.parse(JSON.stringify(body.trajectory_groups), (key, value) =>
        ['start_time', 'id', 'created'].includes(key) ? undefined : value,
      ),
    );
    bodies.push(sampled);
  }
  expect(bodies[1]).toEqual(bodies[0]);
  expect(bodies[2]).toEqual(bodies[0]);
});

test('a run stopped in the middle counts rollouts in flight, and can be resumed', async () => {
  const stop = new AbortController();
  const { service, settings } = await open();
  await using _ = service;
  const stopped = await train({
    ...settings,
    maxStaleness: 2,
    concurrency: 2,
    signal: stop.signal,
    onEvent: (event) =>
      event.type === 'rollouts' && event.step === 2 && event.done === 3 && stop.abort(new Error('Ctrl-C')),
  });
  expect(stopped.reason).toBe('stopped');
  const { dispatched, completed, failed, cancelled } = stopped.counts;
  expect(dispatched).toBe(completed + failed + cancelled);
  expect(cancelled).toBeGreaterThan(0);
  const asked = service.requests.length;
  const result = await train({ ...settings, maxStaleness: 2, resume: true });
  expect(result).toMatchObject({
    reason: 'finished',
    counts: { dispatched: 32, completed: 32, cancelled: 0 },
  });
  expect(asked).toBeGreaterThan(8);
});
