import { generateText } from 'ai';
import { defineEnvironment, evaluate, ModelHandle } from 'martingale';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { estimate } from '../../src/evaluation/index.ts';
import { startFakeService } from '../model/fake-service.ts';

test('the estimate of 0, 0, 1, 1 is worked out by hand', () => {
  // Sample variance 1/3, standard error sqrt(1/12).
  expect(estimate([0, 0, 1, 1])).toEqual({
    mean: 0.5,
    standardError: expect.closeTo(0.288675, 6),
    interval95: { low: expect.closeTo(-0.065803, 6), high: expect.closeTo(1.065803, 6) },
  });
  expect(estimate([2])).toEqual({ mean: 2, standardError: null, interval95: null });
  expect(estimate([])).toBeNull();
});

const parity = defineEnvironment({
  name: 'parity',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ scenario: { id }, model }) => {
    if (id === 4) throw new Error('broken');
    const { text } = await generateText({ model: model.languageModel, prompt: String(id), temperature: 1 });
    return text;
  },
  rewards: { success: ({ outcome }) => Number(outcome === 'even'), length: { weight: 0, reward: () => 9 } },
});

test('an evaluation is greedy, scores each scenario, and counts failures apart', async () => {
  await using service = await startFakeService({
    policy: ({ messages }) => ({ text: Number(messages[0]?.content) % 2 === 0 ? 'even' : 'odd' }),
  });
  const model = new ModelHandle({ client: service.client, name: 'a/b/c:step7' });
  const evaluation = await evaluate({
    environment: parity,
    scenarios: [0, 1, 2, 3, 4].map((id) => ({ id })),
    model,
    rolloutsPerScenario: 2,
  });
  expect(evaluation).toMatchObject({
    policy: 'a/b/c:step7',
    reward: { mean: 0.5 },
    success: { mean: 0.5 },
    books: { dispatched: 10, completed: 8, failed: 2, cancelled: 0 },
  });
  expect(evaluation.perScenario.map(({ reward }) => reward)).toEqual([1, 0, 1, 0, null]);
  expect(new Set(service.requests.map(({ temperature }) => temperature))).toEqual(new Set([0]));
});

test('the temperature can be left to the agent', async () => {
  await using service = await startFakeService({ policy: () => ({ text: 'x' }) });
  const model = new ModelHandle({ client: service.client, name: 'a/b/c:step7' });
  await evaluate({ environment: parity, scenarios: [{ id: 0 }], model, temperature: 'agent' });
  expect(service.requests[0]?.temperature).toBe(1);
});
