import { join } from 'node:path';
import { generateText } from 'ai';
import { defineEnvironment, train } from 'martingale';
import { beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { RunViews } from '../../src/view/index.ts';
import { startFakeService } from '../model/fake-service.ts';
import { sharedFolder } from '../support/files.ts';

const folder = sharedFolder();
const views = new RunViews([folder]);

/** The guest speaks only where the host lets it, and one visit fails. */
const visits = defineEnvironment({
  name: 'visits',
  scenario: z.object({ id: z.number(), isOpen: z.boolean() }),
  seats: ['host', 'guest'],
  title: ({ id }) => `visit ${id}`,
  rollout: async ({ scenario: { id, isOpen }, seats, seed }) => {
    const { text } = await generateText({ model: seats.host.model.languageModel, prompt: `${id} ${seed}` });
    if (id === 3 && seats.host.trajectory.calls.length > 0 && seed % 2 === 0)
      throw new Error('the bell is broken');
    if (isOpen) await generateText({ model: seats.guest.model.languageModel, prompt: text });
    return text;
  },
  rewards: { success: ({ seat }) => (seat === 'host' ? 1 : 0) },
});

beforeAll(async () => {
  await using service = await startFakeService({ policy: () => ({ text: 'come in' }) });
  await train({
    environment: visits,
    scenarios: Array.from({ length: 4 }, (_, id) => ({ id, isOpen: id % 2 === 0 })),
    client: service.client,
    model: { project: 'shop', name: 'door', baseModel: 'martingale-tiny' },
    steps: 1,
    groupsPerStep: 4,
    rolloutsPerGroup: 4,
    runDirectory: join(folder, 'visits'),
    progress: false,
  });
});

it('counts the rollouts of a step, not their seats', async () => {
  const { counts, report, groups } = await views.step('visits', '0');
  expect(groups).toHaveLength(8);
  const { dispatched, completed, failed, cancelled } = report ?? {};
  expect(counts).toEqual({ dispatched, completed, failed, cancelled });
  expect(counts).toMatchObject({ dispatched: 16, cancelled: 0 });
  expect(counts.failed).toBeGreaterThan(0);
});

it('a seat that did not play is no failure; a rollout that failed is one', async () => {
  const { counts, failures, groups } = await views.step('visits', '0');
  expect(failures.map(({ code, count }) => [code, count])).toEqual([['Error', counts.failed]]);
  const silent = groups.find(({ title }) => title === 'guest: visit 1');
  expect(silent?.rollouts.map(({ status, failure }) => [status, failure])).toEqual(
    Array(4).fill(['not_played', null]),
  );
  const { rollouts } = await views.group('visits', '0', silent?.group ?? -1);
  expect(rollouts[0]).toMatchObject({ status: 'not_played', failure: null, reward: null });
  const rollout = await views.rollout('visits', '0', silent?.group ?? -1, 0);
  expect(rollout).toMatchObject({ status: 'not_played', failureDetail: null });
});
