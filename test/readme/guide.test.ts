import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generateText } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import { openReward } from '../../src/environments.ts';
import { readScenarios } from '../../src/formats/conversations/read-scenarios.ts';
import {
  type Alarm,
  type Client,
  type ComparisonTable,
  closeEndpoints,
  createClient,
  defineEnvironment,
  type Environment,
  type Evaluation,
  evaluate,
  externalModel,
  ModelHandle,
  type RolloutCounts,
  type RolloutGroup,
  runGroups,
  type ScenarioSource,
  type Schedule,
  type StepReport,
  sft,
  type TrainResult,
  type TrajectoryGroup,
  train,
} from '../../src/index.ts';
import { evaluationJsonLines, type RecordedScenario } from '../../src/records.ts';
import { startService } from '../../src/service/index.ts';
import { generateCheckpoint } from '../engines/embedded/checkpoint/generated.ts';
import { TinkerServer } from '../engines/tinker/tinker-server.ts';
import { startE2bService } from '../formats/harbor/e2b-service.ts';
import { hasBubblewrap } from '../formats/harbor/has-bubblewrap.ts';
import { startPodman } from '../formats/harbor/podman.ts';
import { taskFolder } from '../formats/harbor/task-folder.ts';
import { startEnvServer } from '../formats/open-env/env-server.ts';
import { startStandardServer } from '../formats/open-reward/standard-server.ts';
import { type FakePolicy, startFakeService } from '../model/fake-service.ts';
import { root } from '../support/programs.ts';
import { type Snippet, typeScriptSnippets } from './documents.ts';

/** In the repository, so that packages resolve as they do for a reader. */
let folder: string;
const outside = process.cwd();

beforeAll(async () => {
  await mkdir(join(root, '.martingale'), { recursive: true });
  folder = await mkdtemp(join(root, '.martingale/guide-'));
});
afterEach(() => {
  process.chdir(outside);
  vi.unstubAllEnvs();
});
afterAll(async () => {
  await closeEndpoints();
  await rm(folder, { recursive: true, force: true });
});

/** The export of that name of the one snippet of the documents that has it. */
async function exported<Value>(
  name: string,
  change: (code: string) => string = (code) => code,
): Promise<Value> {
  const found = (await typeScriptSnippets()).filter(({ code }) =>
    new RegExp(`^export (default )?(async function|function|const) ${name}\\b`, 'm').test(code),
  );
  expect(found).toHaveLength(1);
  const code = found[0]?.code ?? '';
  const file = join(folder, `${name}.ts`);
  await writeFile(file, change(code));
  const exports: Record<string, unknown> = await import(file);
  return z.custom<Value>((value) => value !== undefined).parse(exports[name] ?? exports.default);
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

const cups = [{ item: 'cup', left: 3 }];
const looks = callThenSay('look', { item: 'cup' });

/** A model of a provider, which says what `say` makes of the conversation. */
function hostedModel(say: (prompt: string) => string): MockLanguageModelV4 {
  const usage = { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 };
  return new MockLanguageModelV4({
    modelId: 'hosted',
    doGenerate: async ({ prompt }) => ({
      content: [{ type: 'text', text: say(JSON.stringify(prompt)) }],
      finishReason: { unified: 'stop', raw: 'stop' },
      usage: { inputTokens: usage, outputTokens: { total: 1, text: 1, reasoning: 0 } },
      warnings: [],
    }),
  });
}

describe('environments of README and docs', () => {
  it('train an existing agent', async () => {
    const stockroom = await exported<Environment>('stockroom');
    expect(await rewardsOf(stockroom, cups[0], looks)).toEqual([1.1, 1.1]);
  });

  it('train an agent of any kind by its endpoint', async () => {
    const capitals = await exported<Environment>('capitals');
    const scenario = { country: 'France', capital: 'Paris' };
    expect(await rewardsOf(capitals, scenario, () => ({ text: 'It is Paris.' }))).toEqual([1, 1]);
  });

  it("train an agent on Anthropic's client by the same endpoint", async () => {
    const rivers = await exported<Environment>('rivers');
    const scenario = { city: 'Paris', river: 'Seine' };
    expect(await rewardsOf(rivers, scenario, () => ({ text: 'The Seine.' }))).toEqual([1, 1]);
  });

  it('train an agent that names its model by a string', async () => {
    const antonyms = await exported<Environment>('antonyms');
    const restore = await exported<() => void>('restore');
    const scenario = { word: 'hot', opposite: 'cold' };
    expect(await rewardsOf(antonyms, scenario, () => ({ text: 'cold' }))).toEqual([1, 1]);
    restore();
  });

  it('have a user simulator that is not recorded', async () => {
    const interview = await exported<(customer: MockLanguageModelV4) => Environment>('interview');
    const customer = hostedModel(() => 'I am Ada.');
    const asks = callThenSay('ask', { question: 'Who are you?' });
    expect(await rewardsOf(interview(customer), { name: 'Ada' }, asks)).toEqual([1, 1]);
  });

  it('lead the conversation of an environment in pieces', async () => {
    const safe = await exported<Environment>('safe');
    const dials: FakePolicy = ({ messages }) => ({
      toolCalls: [{ name: 'dial', arguments: `{"digit":${messages.length > 1 ? 7 : 2}}` }],
    });
    expect(await rewardsOf(safe, { code: 7 }, dials)).toEqual([2, 2]);
  });

  it('have a judge compare the rollouts of a scenario', async () => {
    const limericks = await exported<(judge: MockLanguageModelV4) => Environment>('limericks');
    const scores = ['c1', 'c2'].map((id, at) => ({ id, explanation: 'So.', score: at }));
    const judge = hostedModel((prompt) =>
      JSON.stringify(prompt.includes('funnier') ? { scores } : { explanation: 'They do.', score: 1 }),
    );
    let written = 0;
    const policy: FakePolicy = () => ({ text: `There was a young ${written++}.` });
    const rewards = await rewardsOf(limericks(judge), { subject: 'owls' }, policy);
    expect(rewards.toSorted()).toEqual([0, 1]);
  });

  it('score an output that does not parse', async () => {
    const forms = await exported<Environment>('forms');
    const policy: FakePolicy = () => ({ text: 'no JSON' });
    expect(await rewardsOf(forms, { letter: 'Yours, Ada', name: 'Ada' }, policy)).toEqual([-1, -1]);
  });

  it('mix scenarios of a file and of a generator', async () => {
    process.chdir(folder);
    const line = (n: number) => JSON.stringify({ id: `sum-${n}`, question: `${n} + 1`, answer: n + 1 });
    await writeFile('sums.jsonl', `${Array.from({ length: 200 }, (_, n) => line(n)).join('\n')}\n`);
    const scenarios = await exported<ScenarioSource<{ id: string }>>('scenarios');
    const drawn = await scenarios.take(400);
    const made = drawn.filter(({ scenario }) => scenario.id.startsWith('made')).length;
    expect(made).toBeGreaterThan(60);
    expect(made).toBeLessThan(140);
  });
});

it('make scenarios of recordings', async () => {
  process.chdir(folder);
  const redact = await exported<(scenario: unknown) => unknown>('redact');
  const lines = [
    {
      messages: [
        { role: 'user', content: 'Where is 12345678?' },
        { role: 'assistant', content: 'On its way.' },
      ],
    },
    { model: 'old-model', messages: [{ role: 'user', content: 'Hello.' }] },
  ];
  await writeFile('chats.jsonl', lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const { train } = await readScenarios(['chats.jsonl'], { map: redact, validation: 0 });
  await mkdir('scenarios');
  await writeFile('scenarios/train.jsonl', `${JSON.stringify(train[0])}\n`);
  const openings = await exported<ScenarioSource<RecordedScenario>>('openings');
  const firstTurns = await exported<(judge: MockLanguageModelV4) => Environment>('firstTurns');
  const [drawn] = await openings.take(2);
  expect(drawn?.scenario).toMatchObject({ messages: [{ role: 'user', content: 'Where is <number>?' }] });
  const judge = hostedModel((prompt) =>
    JSON.stringify({ explanation: 'So.', score: Number(prompt.includes('It was answered: On its way.')) }),
  );
  const rewards = await rewardsOf(firstTurns(judge), drawn?.scenario, () => ({
    text: 'It will come today.',
  }));
  expect([train.length, rewards]).toEqual([1, [1, 1]]);
});

describe('runs of README and docs', () => {
  it('begin with supervised training', async () => {
    type Teach = (client: Client, examples: object[]) => Promise<ModelHandle>;
    const teach = await exported<Teach>('teach');
    await using service = await startFakeService({ policy: looks });
    const messages = [
      { role: 'user', content: 'hello' },
      { role: 'assistant', content: 'good morning' },
    ];
    expect((await teach(service.client, [{ messages }])).step).toBe(1);
  });

  it('begin a long run and continue it', async () => {
    process.chdir(folder);
    const longRun = await exported<
      (...given: [Environment, ModelHandle, unknown[], unknown[]]) => Promise<TrainResult>
    >('longRun', (code) =>
      code.replace('everySteps: 20', 'everySteps: 1').replace('groupsPerStep: 32', 'groupsPerStep: 2'),
    );
    const stockroom = await exported<Environment>('stockroom');
    await using service = await startFakeService({ policy: looks });
    const begin = async () => longRun(stockroom, handle(service.client), cups, cups);
    const result = await begin();
    // All rewards are equal: nothing to learn, and no better validation.
    expect([result.reason, result.because]).toEqual(['early_stop', expect.stringContaining('validation')]);
    expect((await begin()).reports).toEqual(result.reports);
  }, 120_000);

  it('have schedules between their two values', async () => {
    const rates = await exported<Record<string, Schedule>>('rates');
    const at = (step: number) =>
      Object.fromEntries(Object.entries(rates).map(([name, rate]) => [name, rate({ step, steps: 101 })]));
    expect(at(0)).toMatchObject({ flat: 7e-4, falling: 7e-4, slowAtBothEnds: 7e-4 });
    expect(at(0).rising).toBeLessThan(at(5).rising ?? 0);
    expect(at(100)).toMatchObject({ flat: 7e-4, rising: 7e-4 });
    expect(at(100).falling).toBeCloseTo(7e-5, 10);
    expect(at(100).slowAtBothEnds).toBeCloseTo(7e-5, 10);
  });

  it('bound the model calls of many rollouts', async () => {
    type Thousands = (
      environment: Environment,
      scenarios: unknown[],
      model: ModelHandle,
    ) => Promise<{ counts: { completed: number }; calls: { peak: number } }>;
    const thousands = await exported<Thousands>('thousands');
    const stockroom = await exported<Environment>('stockroom');
    await using service = await startFakeService({ policy: looks });
    const { counts, calls } = await thousands(stockroom, cups, handle(service.client, 0));
    expect(counts.completed).toBe(8);
    expect(calls.peak).toBeGreaterThan(0);
  });
});

describe('results of README and docs', () => {
  type OnScenarios<Result> = (
    environment: Environment,
    scenarios: unknown[],
    model: ModelHandle,
  ) => Promise<Result>;

  it('close the endpoints that an evaluation has opened', async () => {
    const check = await exported<OnScenarios<Evaluation>>('check');
    const capitals = await exported<Environment>('capitals');
    await using service = await startFakeService({ policy: () => ({ text: 'Paris' }) });
    const scenarios = [{ country: 'France', capital: 'Paris' }];
    const { success } = await check(capitals, scenarios, handle(service.client, 3));
    expect(success?.mean).toBe(1);
  });

  it('compare an external model with a trained one, and keep the evaluation', async () => {
    process.chdir(folder);
    type Against = (
      environment: Environment,
      scenarios: unknown[],
      models: { trained: ModelHandle; hosted: MockLanguageModelV4 },
    ) => Promise<string>;
    const against = await exported<Against>('against');
    const stockroom = await exported<Environment>('stockroom');
    const hosted = hostedModel(() => 'no idea');
    await using service = await startFakeService({ policy: looks });
    const scenarios = Array.from({ length: 8 }, (_, n) => ({ id: `cup-${n}`, item: 'cup', left: 3 }));
    const text = await against(stockroom, scenarios, { trained: handle(service.client, 3), hosted });
    expect(text).toContain('hosted');
    expect(text).toContain('step3');
  });

  it('puts several ways of one environment into one table', async () => {
    process.chdir(folder);
    type SeveralWays = (
      environment: Environment,
      scenarios: unknown[],
      models: { trained: ModelHandle; hosted: MockLanguageModelV4 },
    ) => Promise<ComparisonTable>;
    const severalWays = await exported<SeveralWays>('severalWays');
    const stockroom = await exported<Environment>('stockroom');
    await using service = await startFakeService({ policy: looks });
    const scenarios = Array.from({ length: 8 }, (_, n) => ({ id: `cup-${n}`, item: 'cup', left: 3 }));
    const models = { trained: handle(service.client, 3), hosted: hostedModel(() => 'no idea') };
    const { rows, warnings } = await severalWays(stockroom, scenarios, models);
    expect(rows.map(({ name, scenarios: count }) => [name, count])).toEqual([
      ['before', 8],
      ['hosted', 8],
      ['trained', 8],
    ]);
    expect(rows[1]?.difference?.worse).toHaveLength(8);
    expect(warnings).toEqual([]);
  });

  it('gate a release', async () => {
    process.chdir(folder);
    const staysAsGood =
      await exported<(environment: Environment, scenarios: unknown[]) => Promise<void>>('staysAsGood');
    const isBetter = await exported<(evaluation: Evaluation) => Promise<void>>('isBetter');
    const sinceBaseline = await exported<(evaluation: Evaluation) => Promise<string>>('sinceBaseline');
    const stockroom = await exported<Environment>('stockroom');
    const scenarios = Array.from({ length: 8 }, (_, n) => ({ id: `cup-${n}`, item: 'cup', left: 3 }));
    await using service = await startFakeService({ policy: looks });
    const model = handle(service.client, 3).recordingTo('calls.jsonl');
    const good = await evaluate({ environment: stockroom, scenarios, model });
    await writeFile('baseline.jsonl', evaluationJsonLines(good));
    await staysAsGood(stockroom, scenarios);
    await expect(isBetter(good)).rejects.toThrow('is not better');
    const hosted = externalModel(hostedModel(() => 'no idea'));
    await writeFile(
      'baseline.jsonl',
      evaluationJsonLines(await evaluate({ environment: stockroom, scenarios, model: hosted })),
    );
    await isBetter(good);
    expect(await sinceBaseline(good)).toContain('8 better, 0 worse');
    await rm('calls.jsonl');
  });

  it('choose the scenarios that a model does not solve', async () => {
    const unsolved = await exported<OnScenarios<unknown[]>>('unsolved');
    const stockroom = await exported<Environment>('stockroom');
    await using service = await startFakeService({ policy: callThenSay('look', { item: 'cup' }) });
    const scenarios = [...cups, { item: 'plate', left: 2 }];
    expect(await unsolved(stockroom, scenarios, handle(service.client, 3))).toEqual([scenarios[1]]);
  });

  it('play recorded calls back without a service', async () => {
    process.chdir(folder);
    type Replay = (
      environment: Environment,
      scenarios: unknown[],
    ) => Promise<{ evaluation: Evaluation; unused: unknown[] }>;
    const record = await exported<OnScenarios<Evaluation>>('record');
    const replay = await exported<Replay>('replay');
    const stockroom = await exported<Environment>('stockroom');
    let recorded: Evaluation;
    {
      await using service = await startFakeService({ policy: looks });
      recorded = await record(stockroom, cups, handle(service.client, 3));
    }
    const { evaluation, unused } = await replay(stockroom, cups);
    expect(evaluation.reward).toEqual(recorded.reward);
    expect(unused).toEqual([]);
  });

  it('record and play back the calls of a handle that you make', async () => {
    type Recording = (model: ModelHandle, file: string) => ModelHandle;
    const recording = await exported<Recording>('recording');
    const offline = await exported<(name: string, file: string) => Promise<ModelHandle>>('offline');
    const stockroom = await exported<Environment>('stockroom');
    const file = join(folder, 'own-calls.jsonl');
    const settings = { environment: stockroom, scenarios: cups };
    await using service = await startFakeService({ policy: looks });
    const model = handle(service.client, 3);
    const recorded = await evaluate({ ...settings, model: recording(model, file) });
    const replayed = await evaluate({ ...settings, model: await offline(model.name, file) });
    expect(replayed.reward).toEqual(recorded.reward);
    expect(service.requests).toHaveLength(2);
  });

  it('read what a run has written, score it again and run it again', async () => {
    const stockroom = await exported<Environment>('stockroom');
    const runDirectory = join(folder, 'one-step');
    await using service = await startFakeService({ policy: looks });
    const model = handle(service.client);
    await train({
      environment: stockroom,
      scenarios: cups,
      model,
      steps: 1,
      groupsPerStep: 1,
      rolloutsPerGroup: 2,
      runDirectory,
    });
    type OnRun<Result> = (runDirectory: string, environment: Environment) => Promise<Result>;
    const withNewRewards = await exported<OnRun<unknown>>('withNewRewards');
    expect(await withNewRewards(runDirectory, stockroom)).toEqual([
      [1.1, 1.1],
      [1.1, 1.1],
    ]);
    const isDeterministic = await exported<OnRun<boolean>>('isDeterministic');
    expect(await isDeterministic(runDirectory, stockroom)).toBe(true);
    const firstTrajectory = await exported<(file: string) => Promise<{ reward: number }>>('firstTrajectory');
    const file = join(runDirectory, 'trajectories/step-0000.jsonl');
    expect((await firstTrajectory(file)).reward).toBe(1.1);
    const tables = await exported<(evaluation: Evaluation) => Record<string, unknown>>('tables');
    const evaluation = await evaluate({ environment: stockroom, scenarios: cups, model: model.at(1) });
    expect(tables(evaluation)).toMatchObject({
      rows: [{ reward: 1.1 }],
      csv: expect.stringContaining('reward'),
      jsonLines: expect.stringContaining('"cup"'),
    });
  });
});

describe('better prompts of docs/guide.md', () => {
  it('are found by the model itself, and judged on tickets that it has not seen', async () => {
    type Ticket = { ticket: string; team: string };
    type BetterPrompt = (
      hosted: MockLanguageModelV4,
      sets: Record<'seen' | 'validation' | 'heldOut', Ticket[]>,
      runDirectory: string,
    ) => Promise<{ texts: { system: string }; report: string; spent: { rollouts: number } }>;
    const betterPrompt = await exported<BetterPrompt>('betterPrompt');
    const ticketsOf = (count: number): Ticket[] =>
      Array.from({ length: count }, (_, at) => ({ ticket: `Refund ${at}`, team: 'billing' }));
    const hosted = hostedModel((prompt) => {
      if (prompt.includes('Improve this text'))
        return prompt.includes('The right answer was billing.') ? '<new_text>Say billing.</new_text>' : '';
      return prompt.includes('Say billing.') ? 'billing' : 'nobody';
    });
    const sets = { seen: ticketsOf(4), validation: ticketsOf(3), heldOut: ticketsOf(8) };
    const { texts, report, spent } = await betterPrompt(hosted, sets, join(folder, 'tickets'));
    expect(texts).toEqual({ system: 'Say billing.' });
    expect(report).toContain('8 better, 0 worse');
    expect(spent.rollouts).toBeGreaterThan(9);
  });
});

describe('the loop of docs/guide.md', () => {
  it('runs one group', async () => {
    type OneGroup = (
      environment: Environment,
      scenario: unknown,
      model: ModelHandle,
    ) => Promise<RolloutGroup>;
    const oneGroup = await exported<OneGroup>('oneGroup');
    const stockroom = await exported<Environment>('stockroom');
    await using service = await startFakeService({ policy: looks });
    const { rollouts } = await oneGroup(stockroom, cups[0], handle(service.client, 0));
    expect(rollouts.map(({ status }) => status)).toEqual(Array(4).fill('completed'));
  });

  it('records calls without an environment', async () => {
    type ShortReplies = (model: ModelHandle, prompt: string) => Promise<TrajectoryGroup>;
    const shortReplies = await exported<ShortReplies>('shortReplies');
    let calls = 0;
    await using service = await startFakeService({ policy: () => ({ text: 'o'.repeat(++calls) }) });
    const group = await shortReplies(handle(service.client, 0), 'Be brief.');
    expect(group.trajectories.map(({ reward }) => reward).toSorted()).toEqual([-1, -2, -3, -4]);
    expect(group.hasSignal).toBe(true);
    expect(group.toBody().trajectories).toHaveLength(4);
  });

  it('stores groups as a run does, and finds alarms', async () => {
    type Store = (
      path: string,
      groups: RolloutGroup[],
    ) => Promise<{ file: string; lines: string[]; counts: RolloutCounts }>;
    const store = await exported<Store>('store');
    const quickOnes = await exported<(group: RolloutGroup, limitMs: number) => RolloutGroup>('quickOnes');
    const stockroom = await exported<Environment>('stockroom');
    await using service = await startFakeService({ policy: looks });
    const model = handle(service.client, 0);
    const { groups } = await runGroups({
      environment: stockroom,
      scenarios: cups,
      rolloutsPerGroup: 2,
      model,
    });
    const path = join(folder, 'stored');
    const { file, lines, counts } = await store(path, groups);
    expect((await readFile(join(path, file), 'utf8')).trimEnd()).toBe(lines.join('\n'));
    expect(counts).toMatchObject({ dispatched: 2, completed: 2 });
    expect(groups.map((group) => quickOnes(group, 0).rollouts)).toEqual([[]]);

    const { reports } = await train({
      environment: stockroom,
      scenarios: cups,
      model: handle(service.client),
      steps: 5,
      groupsPerStep: 1,
      rolloutsPerGroup: 2,
      runDirectory: join(folder, 'diagnosed'),
    });
    const alarmsOfNewest = await exported<(reports: StepReport[]) => Alarm[]>('alarmsOfNewest');
    expect(alarmsOfNewest(reports).map(({ kind }) => kind)).toContain('no_signal');
    const isRepetitive = await exported<(tokens: number[]) => boolean>('isRepetitive');
    expect([isRepetitive([1, 2, 3, 4, 5]), isRepetitive(Array(40).fill(1))]).toEqual([false, true]);
    type Draw = (scenarios: string[], at: { seed: number; step: number }) => string;
    const draw = await exported<Draw>('draw');
    const at = { seed: 1, step: 2 };
    expect(draw(['a', 'b', 'c'], at)).toBe(draw(['a', 'b', 'c'], at));
  });
});

describe('the rest of README and docs', () => {
  it('learns from a teacher', async () => {
    const engine = await createEmbeddedEngine({ threads: 1 });
    const service = await startService({ engine, dataFolder: join(folder, 'teacher-service') });
    const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
    process.chdir(folder);
    type Learn = (client: Client, environment: Environment, scenarios: object[]) => Promise<StepReport[]>;
    const learnFrom = await exported<Learn>('learnFrom', (code) => code.replace('steps: 20', 'steps: 1'));
    const talk = defineEnvironment({
      name: 'talk',
      scenario: z.object({ topic: z.string() }),
      rollout: async ({ scenario, model, signal }) => {
        const call = { prompt: scenario.topic, maxOutputTokens: 4, abortSignal: signal };
        return (await generateText({ model: model.languageModel, ...call })).text;
      },
    });
    const reports = await learnFrom(client, talk, [{ topic: 'rain' }]);
    expect(reports).toMatchObject([{ completed: 32, groupsWithSignal: 8, klReference: expect.any(Number) }]);
    await client.close();
    await service.close();
    await engine.close();
  });

  it('trains the weights of a folder under its name', async () => {
    const checkpoint = { folder: await generateCheckpoint(folder, 'qwen2'), id: 'Qwen2.5-0.5B-Instruct' };
    const engine = await createEmbeddedEngine({ threads: 1, checkpoints: [checkpoint] });
    const service = await startService({ engine, dataFolder: join(folder, 'real-service') });
    vi.stubEnv('MARTINGALE_BASE_URL', service.url);
    vi.stubEnv('MARTINGALE_API_KEY', service.apiKey);
    process.chdir(folder);
    type Train = (environment: Environment, scenarios: unknown[], val: unknown[]) => Promise<TrainResult>;
    const trainRealWeights = await exported<Train>('trainRealWeights', (code) =>
      code.replace('steps: 40', 'steps: 1').replace('learning_rate: 1e-4', '$&, entropy_coefficient: 0.01'),
    );
    const guess = defineEnvironment({
      name: 'guess',
      scenario: z.object({ light: z.string() }),
      rollout: async ({ scenario, model, signal }) => {
        const call = { prompt: scenario.light, maxOutputTokens: 4, abortSignal: signal };
        return (await generateText({ model: model.languageModel, ...call })).text;
      },
      rewards: { success: ({ outcome }) => Number(outcome.includes('go')) },
    });
    const { model, reports } = await trainRealWeights(guess, [{ light: 'green' }], [{ light: 'red' }]);
    expect(reports).toMatchObject([{ completed: 64 }]);
    expect(model.name).toBe('local/first/real:step1');
    await service.close();
    await engine.close();
  });

  it('tells errors apart', async () => {
    const whatToDo = await exported<(error: unknown) => string>('whatToDo');
    const error = await train(z.custom<Parameters<typeof train>[0]>().parse({ maxTurns: 3 })).catch(
      (thrown: unknown) => thrown,
    );
    expect(whatToDo(error)).toBe('correct the option maxTurns');
    expect(whatToDo(new Error('no'))).toBe('not an error of martingale');
  });

  it('forks a model and downloads a checkpoint', async () => {
    type Fork = (client: Client, modelId: string, file: string) => Promise<{ bytes: number }>;
    const forkAndKeep = await exported<Fork>('forkAndKeep');
    const engine = await createEmbeddedEngine({ threads: 1 });
    const service = await startService({ engine, dataFolder: join(folder, 'service') });
    const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
    const { id } = await client.models.create({ project: 'first', base_model: 'martingale-tiny' });
    const messages = [
      { role: 'user' as const, content: 'hello' },
      { role: 'assistant' as const, content: 'good morning' },
    ];
    await sft({
      model: new ModelHandle({ client, id, name: 'local/first/any' }),
      examples: [{ messages }],
    });
    const file = join(folder, 'model.safetensors');
    const { bytes } = await forkAndKeep(client, id, file);
    expect((await stat(file)).size).toBe(bytes);
    await client.close();
    await service.close();
    await engine.close();
  });

  it('names a metric as Prometheus does', async () => {
    expect(await exported<string>('noSignal')).toContain('(martingale_step_signal_share[10m])');
  });

  it('has no snippet without a test', async () => {
    const isProgram = ({ note, code }: Snippet) =>
      note === 'run' || note.endsWith('.ts') || code.includes('runRecipe(');
    const others = (await typeScriptSnippets()).filter((snippet) => !isProgram(snippet));
    const here = await readFile(import.meta.filename, 'utf8');
    const namesOf = (code: string) =>
      [...code.matchAll(/^export (?:default )?(?:async function|function|const) (\w+)/gm)].map(
        ([, name]) => name,
      );
    const notRun = others.filter(({ code }) => !namesOf(code).some((name) => here.includes(`>('${name}'`)));
    expect(notRun.map(({ document, code }) => `${document}: ${code}`)).toEqual([]);
  });
});

it('trains on an environment that a server of the Open Reward Standard has', async () => {
  type LearnServed = (client: unknown, url: string, steps: number) => Promise<number[]>;
  const learnServed = await exported<LearnServed>('learnServed');
  const server = await startStandardServer();
  server.hasTerminalTool = true;
  await using service = await startFakeService({
    policy: ({ seed }) => ({ text: String(Number(seed) % 3) }),
  });
  const rewards = await learnServed(service.client, server.url, 1);
  expect(rewards).toEqual([expect.closeTo(0.5, 0.4)]);
  expect(server.episodes.size).toBe(0);
});

it.skipIf(!hasBubblewrap)('trains on task folders of Harbor in local sandboxes', async () => {
  type LearnTasks = (client: unknown, tasks: string, steps: number) => Promise<number[]>;
  const learnTasks = await exported<LearnTasks>('learnTasks');
  const tasks = await taskFolder();
  const policy: FakePolicy = ({ seed, messages }) =>
    messages.length > 1
      ? { text: 'done' }
      : {
          toolCalls: [
            { name: 'bash', arguments: `{"command":"echo ${41 + (Number(seed) % 2)} > answer.txt"}` },
          ],
        };
  await using service = await startFakeService({ policy });
  const [reward] = await learnTasks(service.client, tasks, 1);
  // The task's tests give 1 or 0.25.
  expect(reward).toBeGreaterThanOrEqual(0.25);
  expect(reward).toBeLessThanOrEqual(1);
});

it('serves an environment over the Open Reward Standard', async () => {
  type ServeVault = (port: number) => Promise<{ url: string; apiKey: string; close(): Promise<void> }>;
  const server = await (await exported<ServeVault>('serveVault'))(0);
  const served = await openReward(server.url, { apiKey: server.apiKey });
  expect(served.splits).toEqual(['train', 'test']);
  const [, scenario] = await served.scenarios('train');
  const dials: FakePolicy = ({ messages }) => ({
    toolCalls: [{ name: 'dial', arguments: `{"digit":${messages.length > 1 ? 7 : 5}}` }],
  });
  expect(await rewardsOf(served.environment, scenario, dials)).toEqual([1, 1]);
  await served.close();
  await server.close();
});

it('trains on an environment that a server of OpenEnv has', async () => {
  type LearnGuessing = (client: unknown, url: string, steps: number) => Promise<number[]>;
  const learnGuessing = await exported<LearnGuessing>('learnGuessing');
  const server = await startEnvServer();
  await using service = await startFakeService({
    policy: ({ seed }) => ({ text: String(6 + (Number(seed) % 3)) }),
  });
  const rewards = await learnGuessing(service.client, server.url, 1);
  expect(rewards).toEqual([expect.closeTo(0.5, 0)]);
  expect(server.resets).toHaveLength(24);
});

it('serves a training server beside the tiny models from one program', async () => {
  type ServeBoth = (
    url: string,
    checkpoint: string,
    dataFolder: string,
  ) => Promise<{ service: { url: string; apiKey: string }; close(): Promise<void> }>;
  const serveBoth = await exported<ServeBoth>('serveBoth');
  const { url } = await TinkerServer.start({ vocabularySize: 709 });
  const checkpoint = await generateCheckpoint(folder, 'qwen2');
  const { service, close } = await serveBoth(url, checkpoint, join(folder, 'both'));
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  for (const model of ['large', 'martingale-tiny']) {
    const messages = [{ role: 'user' as const, content: 'hello' }];
    const { choices } = await client.chat.completions.create({ model, messages, max_tokens: 3 });
    expect(choices).toHaveLength(1);
  }
  await client.close();
  await close();
});

it('trains one of two agents against a pool of opponents', async () => {
  type LearnToSell = (client: Client, steps: number) => Promise<TrainResult>;
  const market = await exported<Environment>('market');
  expect(market.seats).toEqual(['seller', 'buyer']);
  const learnToSell = await exported<LearnToSell>('learnToSell');
  process.chdir(folder);
  await using service = await startFakeService({
    policy: ({ messages, seed }) =>
      String(messages[0]?.content).startsWith('cost')
        ? { text: String(1 + (Number(seed) % 9)) }
        : { text: 'yes' },
  });
  const { reports, validation } = await learnToSell(service.client, 2);
  expect(reports.map(({ completed, groups }) => [completed, groups])).toEqual([
    [64, 8],
    [64, 8],
  ]);
  const met = reports.flatMap(({ opponents }) => opponents.map(({ model }) => model));
  expect(met).toContain('easy');
  expect(reports[0]?.metrics).toMatchObject({ 'buyer/profit': expect.any(Number), sold: expect.any(Number) });
  expect(validation.after?.counts.completed).toBe(1);
});

it('tests an environment with scripted replies', async () => {
  type RewardOf = (environment: Environment, scenario: unknown, reply: string) => Promise<number | null>;
  const rewardOf = await exported<RewardOf>('rewardOf');
  const stockroom = await exported<Environment>('stockroom');
  const scenario = { item: 'cup', left: 3 };
  expect(await rewardOf(stockroom, scenario, '3 left')).toBeCloseTo(1.1);
  expect(await rewardOf(stockroom, scenario, 'many')).toBeCloseTo(0.1);
});

it('has an agent do tasks of Harbor in containers', { tags: ['long'] }, async (context) => {
  const podman = await startPodman();
  if (!podman) return context.skip();
  type Own = (folder: string, program: string) => Promise<{ environment: Environment; scenarios: unknown[] }>;
  const ownAgentTasks = await exported<Own>('ownAgentTasks');
  const dockerfile = 'FROM localhost/small\nWORKDIR /app\nCOPY given.txt .\n';
  const tasks = await taskFolder({ 'environment/Dockerfile': dockerfile });
  const { environment, scenarios } = await ownAgentTasks(tasks, podman.program);
  const says: FakePolicy = ({ messages }) => ({
    text: JSON.stringify(messages).includes('given.txt') ? '42' : 'none',
  });
  expect(await rewardsOf(environment, scenarios[0], says)).toEqual([1, 1]);
  await podman.close();
});

it('runs tasks of Harbor in hosted sandboxes', { tags: ['long'] }, async (context) => {
  const podman = await startPodman();
  if (!podman) return context.skip();
  const service = await startE2bService(podman);
  vi.stubEnv('E2B_API_URL', service.url);
  vi.stubEnv('E2B_SANDBOX_URL', service.url);
  vi.stubEnv('E2B_API_KEY', 'mine');
  type Hosted = (folder: string) => Promise<{ environment: Environment; scenarios: unknown[] }>;
  const hostedTasks = await exported<Hosted>('hostedTasks');
  const dockerfile = 'FROM localhost/small\nWORKDIR /app\nCOPY given.txt .\n';
  const tasks = await taskFolder({ 'environment/Dockerfile': dockerfile });
  const { environment, scenarios } = await hostedTasks(tasks);
  const says: FakePolicy = ({ messages }) =>
    messages.at(-1)?.role === 'tool'
      ? { text: 'done' }
      : { toolCalls: [{ name: 'bash', arguments: '{"command": "cat given.txt > answer.txt"}' }] };
  expect(await rewardsOf(environment, scenarios[0], says)).toEqual([1, 1]);
  await service.close();
  await podman.close();
});
