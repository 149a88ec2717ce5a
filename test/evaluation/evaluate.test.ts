import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText } from 'ai';
import { defineEnvironment, evaluate, evaluationTable, externalModel, ModelHandle } from 'martingale';
import { evaluationCsv, evaluationJsonLines } from 'martingale/records';
import { expect, test } from 'vitest';
import { z } from 'zod';
import sums, { knows, scenarios as sumScenarios } from '../cli/environments/sums.ts';
import { startFakeService } from '../model/fake-service.ts';

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

test('an evaluation is greedy, scores each scenario and counts failures separately', async () => {
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
    counts: { dispatched: 10, completed: 8, failed: 2, cancelled: 0 },
  });
  expect(evaluation.perScenario.map(({ reward }) => reward)).toEqual([1, 0, 1, 0, null]);
  expect(new Set(service.requests.map(({ temperature }) => temperature))).toEqual(new Set([0]));
});

test('`temperature: agent` keeps the agent’s temperature', async () => {
  await using service = await startFakeService({ policy: () => ({ text: 'x' }) });
  const model = new ModelHandle({ client: service.client, name: 'a/b/c:step7' });
  await evaluate({ environment: parity, scenarios: [{ id: 0 }], model, temperature: 'agent' });
  expect(service.requests[0]?.temperature).toBe(1);
});

const parities = [0, 1, 2, 3].map((id) => ({ id }));

test('pass@k uses the metric `success` or `isSuccess`', async () => {
  // The first rollout of each scenario says `even`, the second `odd`.
  const said = new Map<string, number>();
  await using service = await startFakeService({
    policy: ({ messages }) => {
      const prompt = String(messages[0]?.content);
      const times = (said.get(prompt) ?? 0) + 1;
      said.set(prompt, times);
      return { text: times % 2 === 1 || prompt === '1' ? 'even' : 'odd' };
    },
  });
  const options = {
    environment: parity,
    scenarios: parities,
    model: new ModelHandle({ client: service.client, name: 'a/b/c:step7' }),
    rolloutsPerScenario: 2,
    passAt: [1, 2],
  };
  const { passAt, success, perScenario } = await evaluate(options);
  expect(success).toMatchObject({ mean: 0.625, count: 4, interval95: { method: 'wilson' } });
  expect(perScenario.map(({ successes, judged }) => `${successes}/${judged}`)).toEqual([
    '1/2',
    '2/2',
    '1/2',
    '1/2',
  ]);
  expect(passAt).toMatchObject([
    { k: 1, any: { mean: 0.625 }, all: { mean: 0.625 } },
    { k: 2, any: { mean: 1 }, all: { mean: 0.25 } },
  ]);
  const never = await evaluate({ ...options, isSuccess: () => null });
  expect(never).toMatchObject({ success: null, passAt: [{ any: null }, { any: null }] });
  await expect(evaluate({ ...options, passAt: [3] })).rejects.toThrow(/`passAt` has 3 with 2 rollouts/);
});

test('an external model keeps the agent’s temperature', async () => {
  await using service = await startFakeService({ policy: () => ({ text: 'even' }) });
  const hosted = createOpenAICompatible({ name: 'hosted', baseURL: `${service.baseUrl}/v1`, apiKey: 'key' });
  const model = externalModel(hosted('other'));
  const options = { environment: parity, scenarios: [{ id: 0 }], model };
  expect(await evaluate(options)).toMatchObject({ policy: 'other', reward: { mean: 1 } });
  await evaluate({ ...options, model: model.with({ temperature: 0.3 }) });
  expect(service.requests.map(({ temperature }) => temperature)).toEqual([1, 0.3]);
  await expect(evaluate({ ...options, temperature: 0 })).rejects.toThrow(
    /`temperature` is 0, and "other" is not a model handle/,
  );
});

test('invalid options of groups are refused before the first rollout', async () => {
  await using service = await startFakeService({ policy: () => ({ text: 'x' }) });
  const model = new ModelHandle({ client: service.client, name: 'a/b/c:step7' });
  const options = { environment: parity, scenarios: parities, model };
  await expect(evaluate({ ...options, rolloutsPerScenario: 0 })).rejects.toMatchObject({
    code: 'invalid_option',
  });
  await expect(evaluate({ ...options, timeoutMs: -1 })).rejects.toMatchObject({
    code: 'invalid_rollout_option',
  });
  expect(service.requests).toHaveLength(0);
});

test('table, CSV and JSON lines have every scenario', async () => {
  await using service = await startFakeService({
    policy: ({ messages }) => ({ text: messages[0]?.content === '1' ? 'odd' : 'even' }),
  });
  const evaluation = await evaluate({
    environment: parity,
    scenarios: [{ id: 0 }, { id: 1 }, { id: 4 }, { id: 0 }],
    model: new ModelHandle({ client: service.client, name: 'a/b/c:step7' }),
    key: ({ id }) => `task "${id}"`,
    passAt: [1],
  });
  expect(evaluationTable(evaluation)).toMatchInlineSnapshot(`
    "a/b/c:step7 in parity
    rollouts 4: 3 completed, 1 failed, 0 cancelled
    x 1 Error: broken at test/evaluation/evaluate.test.ts:14:25
    reward   0.667 [0.208, 0.939] (95%, wilson, 3 scenarios)
    success  0.667 [0.208, 0.939] (95%, wilson, 3 scenarios)
    pass@1   0.667 [0.208, 0.939] (95%, wilson, 3 scenarios)
    pass^1   0.667 [0.208, 0.939] (95%, wilson, 3 scenarios)

    key         reward  success  successes  judged  completed  rollouts  pass@1  pass^1  scenario
    task "4"         -        -          0       0          0         1       -       -  {"id":4}
    task "1"         0        0          0       1          1         1       0       0  {"id":1}
    task "0"         1        1          1       1          1         1       1       1  {"id":0}
    task "0"#2       1        1          1       1          1         1       1       1  {"id":0}
    "
  `);
  expect(evaluationCsv(evaluation)).toMatchInlineSnapshot(`
    "key,reward,success,successes,judged,completed,rollouts,pass@1,pass^1
    "task ""0""",1,1,1,1,1,1,1,1
    "task ""1""",0,0,0,1,1,1,0,0
    "task ""4""",,,0,0,0,1,,
    "task ""0""#2",1,1,1,1,1,1,1,1
    "
  `);
  const lines = evaluationJsonLines(evaluation).trimEnd().split('\n');
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { key: 'task "0"', reward: 1, 'pass@1': 1, scenario: { id: 0 } },
    { key: 'task "1"', reward: 0, scenario: { id: 1 } },
    { key: 'task "4"', reward: null, completed: 0, rollouts: 1, scenario: { id: 4 } },
    { key: 'task "0"#2', reward: 1, scenario: { id: 0 } },
  ]);
});

test('calls onGroup with each group that ran, and runs no group of kept again', async () => {
  const model = knows('known', 8);
  const first = await evaluate({ environment: sums, scenarios: sumScenarios, model });
  const ran: number[] = [];
  const again = await evaluate({
    environment: sums,
    scenarios: sumScenarios,
    model,
    kept: new Map(first.groups.slice(0, 6).map((group) => [group.index, group])),
    onGroup: ({ index }) => void ran.push(index),
  });
  expect(ran.sort()).toEqual([6, 7]);
  expect(again.groups.slice(0, 6)).toEqual(first.groups.slice(0, 6));
  const failing = evaluate({
    environment: sums,
    scenarios: sumScenarios,
    model,
    onGroup: () => Promise.reject(new Error('no more room')),
  });
  await expect(failing).rejects.toThrow('no more room');
});
