import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MockLanguageModelV4 } from 'ai/test';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  closeEndpoints,
  type Environment,
  type Evaluation,
  ModelHandle,
  runGroups,
  type ScenarioSource,
  type TrainResult,
} from '../../src/index.ts';
import { type FakePolicy, startFakeService } from '../model/fake-service.ts';
import { root } from './programs.ts';
import { snippetsOf } from './snippets.ts';

/** In the repository, so that packages resolve as they do for a reader. */
let folder: string;
const outside = process.cwd();

beforeAll(async () => {
  await mkdir(join(root, '.martingale'), { recursive: true });
  folder = await mkdtemp(join(root, '.martingale/guide-'));
});
afterAll(async () => {
  process.chdir(outside);
  await closeEndpoints();
  await rm(folder, { recursive: true, force: true });
});

/** What the guide's one snippet with such a line exports under that name. */
async function exported<Value>(
  name: string,
  line: string,
  change: (code: string) => string = (code) => code,
): Promise<Value> {
  const found = (await snippetsOf('README.md')).filter(({ code }) => code.includes(line));
  expect(found).toHaveLength(1);
  const file = join(folder, `${name}.ts`);
  await writeFile(file, change(found[0]?.code ?? ''));
  const exports: Record<string, unknown> = await import(file);
  return z.custom<Value>((value) => value !== undefined).parse(exports[name]);
}

const handle = (client: ConstructorParameters<typeof ModelHandle>[0]['client'], step?: number) =>
  new ModelHandle({
    client,
    id: '7c9f7ab8-3f5e-4d7c-9d7b-0a8f6f1f2a11',
    name: `local/guide/policy${step === undefined ? '' : `:step${step}`}`,
  });

async function rewardsOf(
  environment: Environment,
  scenario: unknown,
  policy: FakePolicy,
): Promise<(number | string)[]> {
  await using service = await startFakeService({ policy });
  const { groups } = await runGroups({
    environment,
    scenarios: [scenario],
    rolloutsPerGroup: 2,
    concurrency: 1,
    model: handle(service.client, 0),
  });
  return groups.flatMap(({ rollouts }) =>
    rollouts.map((rollout) =>
      rollout.status === 'completed' ? (rollout.trajectory.reward ?? Number.NaN) : rollout.failure.message,
    ),
  );
}

/** Calls the tool first, and then says what it answered. */
const callThenSay =
  (name: string, input: object): FakePolicy =>
  ({ messages }) => {
    const answer = messages.findLast(({ role }) => role === 'tool');
    if (answer) return { text: String(answer.content) };
    return { toolCalls: [{ name, arguments: JSON.stringify(input) }] };
  };

describe('the guide in README', () => {
  it('trains the agent that a reader has', async () => {
    const stockroom = await exported<Environment>('stockroom', 'export const stockroom');
    const policy = callThenSay('look', { item: 'cup' });
    expect(await rewardsOf(stockroom, { item: 'cup', left: 3 }, policy)).toEqual([1.1, 1.1]);
  });

  it('trains an agent of any kind by its endpoint', async () => {
    const capitals = await exported<Environment>('capitals', 'export const capitals');
    const scenario = { country: 'France', capital: 'Paris' };
    expect(await rewardsOf(capitals, scenario, () => ({ text: 'It is Paris.' }))).toEqual([1, 1]);
  });

  it('leads the conversation of an environment of pieces', async () => {
    const safe = await exported<Environment>('safe', 'export const safe');
    const dials: FakePolicy = ({ messages }) => ({
      toolCalls: [{ name: 'dial', arguments: `{"digit":${messages.length > 1 ? 7 : 2}}` }],
    });
    expect(await rewardsOf(safe, { code: 7 }, dials)).toEqual([2, 2]);
  });

  it('has a judge compare the rollouts of a scenario', async () => {
    const limericks = await exported<(judge: MockLanguageModelV4) => Environment>(
      'limericks',
      'export const limericks',
    );
    const verdict = { scores: ['c1', 'c2'].map((id, at) => ({ id, explanation: 'So.', score: at })) };
    const usage = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 };
    const judge = new MockLanguageModelV4({
      doGenerate: async () => ({
        content: [{ type: 'text', text: JSON.stringify(verdict) }],
        finishReason: { unified: 'stop', raw: 'stop' },
        usage: { inputTokens: usage, outputTokens: { total: 1, text: 1, reasoning: 0 } },
        warnings: [],
      }),
    });
    let written = 0;
    const policy: FakePolicy = () => ({ text: `There was a young ${written++}.` });
    const rewards = await rewardsOf(limericks(judge), { subject: 'owls' }, policy);
    expect(rewards.toSorted()).toEqual([0, 1]);
  });

  it('mixes scenarios of a file and of a generator', async () => {
    process.chdir(folder);
    const line = (n: number) => JSON.stringify({ id: `sum-${n}`, question: `${n} + 1`, answer: n + 1 });
    await writeFile('sums.jsonl', `${Array.from({ length: 200 }, (_, n) => line(n)).join('\n')}\n`);
    const scenarios = await exported<ScenarioSource<{ id: string }>>('scenarios', 'ScenarioSet.mix(');
    const drawn = await scenarios.take(400);
    const made = drawn.filter(({ scenario }) => scenario.id.startsWith('made')).length;
    expect(made).toBeGreaterThan(60);
    expect(made).toBeLessThan(140);
    process.chdir(outside);
  });

  it('begins a long run and goes on with it', async () => {
    process.chdir(folder);
    const longRun = await exported<
      (...given: [Environment, ModelHandle, unknown[], unknown[]]) => Promise<TrainResult>
    >('longRun', 'export const longRun', (code) =>
      code.replace('everySteps: 20', 'everySteps: 1').replace('groupsPerStep: 32', 'groupsPerStep: 2'),
    );
    const stockroom = await exported<Environment>('stockroom', 'export const stockroom');
    await using service = await startFakeService({ policy: callThenSay('look', { item: 'cup' }) });
    const cups = [{ item: 'cup', left: 3 }];
    const begin = async () => longRun(stockroom, handle(service.client), cups, cups);
    const result = await begin();
    // All rewards are equal: nothing to learn, and no better validation.
    expect([result.reason, result.because]).toEqual(['early_stop', expect.stringContaining('validation')]);
    expect((await begin()).reports).toEqual(result.reports);
    process.chdir(outside);
  }, 120_000);

  it('compares an external model with what was trained, and keeps the evaluation', async () => {
    process.chdir(folder);
    type Against = (
      environment: Environment,
      scenarios: unknown[],
      models: { trained: ModelHandle; hosted: MockLanguageModelV4 },
    ) => Promise<string>;
    const against = await exported<Against>('against', 'export async function against');
    const stockroom = await exported<Environment>('stockroom', 'export const stockroom');
    const usage = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 };
    const hosted = new MockLanguageModelV4({
      modelId: 'hosted',
      doGenerate: async () => ({
        content: [{ type: 'text', text: 'no idea' }],
        finishReason: { unified: 'stop', raw: 'stop' },
        usage: { inputTokens: usage, outputTokens: { total: 1, text: 1, reasoning: 0 } },
        warnings: [],
      }),
    });
    await using service = await startFakeService({ policy: callThenSay('look', { item: 'cup' }) });
    const cups = Array.from({ length: 8 }, (_, n) => ({ id: `cup-${n}`, item: 'cup', left: 3 }));
    const text = await against(stockroom, cups, { trained: handle(service.client, 3), hosted });
    expect(text).toContain('hosted');
    expect(text).toContain('step3');
    process.chdir(outside);
  });

  it('plays recorded calls back without a service', async () => {
    process.chdir(folder);
    type Record = (environment: Environment, scenarios: unknown[], model: ModelHandle) => Promise<Evaluation>;
    type Replay = (
      environment: Environment,
      scenarios: unknown[],
    ) => Promise<{ evaluation: Evaluation; unused: unknown[] }>;
    const record = await exported<Record>('record', 'export const record');
    const replay = await exported<Replay>('replay', 'export const record');
    const stockroom = await exported<Environment>('stockroom', 'export const stockroom');
    const cups = [{ item: 'cup', left: 3 }];
    let recorded: Evaluation;
    {
      await using service = await startFakeService({ policy: callThenSay('look', { item: 'cup' }) });
      recorded = await record(stockroom, cups, handle(service.client, 3));
    }
    const { evaluation, unused } = await replay(stockroom, cups);
    expect(evaluation.reward).toEqual(recorded.reward);
    expect(unused).toEqual([]);
    process.chdir(outside);
  });
});
