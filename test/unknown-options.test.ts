import { MockLanguageModelV4 } from 'ai/test';
import {
  callBudget,
  compare,
  cosine,
  createClient,
  defineEnvironment,
  type Evaluation,
  earlyStop,
  evaluate,
  externalModel,
  gradingJudge,
  inProcess,
  linear,
  ModelHandle,
  OptionError,
  openModel,
  optimize,
  relativeJudge,
  runGroup,
  runGroups,
  ScenarioSet,
  sft,
  train,
  usePolicyAsDefaultProvider,
  warmup,
  workerThreads,
} from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { followJob, logTrajectories, pruneCheckpoints, submitTraining } from 'martingale/loop';
import { rescore } from 'martingale/records';
import { startService } from 'martingale/service';
import { replayModel, replayStep } from 'martingale/testing';
import { createTinkerEngine } from 'martingale/tinker';
import { afterAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { Engine } from '../src/engines/engine.ts';

/** Nothing listens there: what is refused asks for nothing. */
const client = createClient({ baseUrl: 'http://127.0.0.1:9', apiKey: 'a', retries: 0 });
afterAll(() => client.close());

const judge = new MockLanguageModelV4();
const model = new ModelHandle({ client, name: 'e/p/n', id: '8d4c6f0e-2c55-4a4e-9c3b-6f6d3f3a7a11' });
const environment = defineEnvironment({
  name: 'coins',
  scenario: z.object({}),
  rollout: async () => '',
  rewards: { zero: () => 0 },
});
const scenarios = [{}];
const groups = { environment, scenarios, rolloutsPerGroup: 2, model };
const settings = {
  environment,
  scenarios,
  client,
  model: { project: 'p', name: 'n', baseModel: 'b' },
  steps: 1,
  groupsPerStep: 1,
  rolloutsPerGroup: 2,
};
const evaluation: Evaluation = {
  environment: 'coins',
  policy: 'e/p/n',
  reward: null,
  success: null,
  passAt: [],
  perScenario: [],
  groups: [],
  counts: { dispatched: 0, completed: 0, failed: 0, cancelled: 0 },
  failures: [],
  rewards: {},
  successBy: 'metric success',
  seconds: 0,
};

/** Options that are right, with one more, for callers whom no type has checked. */
const and = <Options extends object>(options: Options, more: object): Options => ({ ...options, ...more });

const calls: readonly [string, () => unknown, string][] = [
  [
    'train',
    () => train(and(settings, { learningRate: 1e-4 })),
    'config.learning_rate or warmStart.learningRate',
  ],
  ['train', () => train(and(settings, { groupsPerSteps: 4 })), 'groupsPerStep'],
  ['train, config', () => train(and(settings, { config: { learningrate: 1 } })), 'config.learning_rate'],
  [
    'train, config by step',
    () => train(and(settings, { config: () => ({ learningRate: 1 }) })),
    'config.learning_rate',
  ],
  [
    'train, validation',
    () => train(and(settings, { validation: { scenarios, everyStep: 1 } })),
    'validation.everySteps',
  ],
  ['train, budget', () => train(and(settings, { budget: { minute: 1 } })), 'budget.minutes'],
  [
    'train, prices',
    () => train(and(settings, { prices: { promptTokensPerMilion: 1 } })),
    'prices.promptTokensPerMillion',
  ],
  ['train, keepCheckpoints', () => train(and(settings, { keepCheckpoints: { new: 1 } })), ''],
  ['train, lostJob', () => train(and(settings, { lostJob: { waitMS: 1 } })), 'lostJob.waitMs'],
  [
    'train, model',
    () => train(and(settings, { model: { ...settings.model, base: 'b' } })),
    'model.baseModel',
  ],
  [
    'train, groupStrategy',
    () => train(and(settings, { groupStrategy: { type: 'minimum', attempts: 2 } })),
    '',
  ],
  ['evaluate', () => evaluate(and({ environment, scenarios, model }, { rolloutsPerGroup: 4 })), ''],
  ['evaluate', () => evaluate(and({ environment, scenarios, model }, { rolloutTimeoutMs: 4 })), 'timeoutMs'],
  [
    'optimize',
    () => optimize(and({ environment, scenarios, model, reflect: judge }, { minibatchSize: 4 })),
    'minibatch',
  ],
  [
    'optimize, budget',
    () => optimize(and({ environment, scenarios, model, reflect: judge }, { budget: { rollout: 4 } })),
    'budget.rollouts',
  ],
  ['runGroups', () => runGroups(and(groups, { maxConcurrency: 4 })), 'concurrency'],
  [
    'runGroup',
    () =>
      runGroup(
        and(
          {
            environment,
            scenario: {},
            rolloutsPerGroup: 2,
            model,
            group: 0,
            seed: 0,
            executor: inProcess(),
            timeoutMs: 1,
            rewardTimeoutMs: 1,
            groupTimeoutMs: 1,
            onUnexpectedCall: 'error' as const,
            signal: undefined,
          },
          { strategy: { type: 'fail_fast' } },
        ),
      ),
    'groupStrategy',
  ],
  ['inProcess', () => inProcess(and({}, { concurency: 3 })), 'concurrency'],
  [
    'workerThreads',
    () => workerThreads(and({ environment: new URL('file:///a') }, { thread: 3 })),
    'threads',
  ],
  ['openModel', () => openModel(and({ client, ...settings.model }, { base_model: 'b' })), 'baseModel'],
  ['sft', () => sft(and({ model, examples: [] }, { learning_rate: 1 })), 'learningRate'],
  ['sft', () => sft(and({ model, examples: [] }, { lostJob: { wait: 1 } })), 'lostJob.waitMs'],
  ['submitTraining', () => submitTraining(and({ model, groups: [] }, { config: { lr: 1 } })), ''],
  [
    'logTrajectories',
    () => logTrajectories(and({ model, split: 'train', groups: [] }, { splits: 1 })),
    'split',
  ],
  ['followJob', () => followJob(and({ client, jobId: 'a' }, { timeout: 1 })), 'timeoutMs'],
  ['pruneCheckpoints', () => pruneCheckpoints(and({ model, steps: [], keep: 1 }, { keeps: 1 })), 'keep'],
  ['externalModel', () => externalModel(judge, and({}, { setting: {} })), 'settings'],
  [
    'externalModel, settings',
    () => externalModel(judge, and({}, { settings: { temprature: 0 } })),
    'settings.temperature',
  ],
  ['with of an external model', () => externalModel(judge).with(and({}, { top_p: 0 })), 'topP'],
  [
    'a model handle',
    () => new ModelHandle(and({ client, name: 'e/p/n' }, { settings: { minp: 0 } })),
    'settings.minP',
  ],
  ['with of a model', () => model.with(and({}, { maxTokens: 4 })), ''],
  [
    'callBudget',
    () => callBudget(and({ concurrency: { min: 1, max: 2 } }, { targetLatency: 1 })),
    'targetLatencyMs',
  ],
  ['callBudget, concurrency', () => callBudget({ concurrency: and({ min: 1, max: 2 }, { begin: 1 }) }), ''],
  [
    'createClient',
    () => createClient(and({ baseUrl: 'http://a', apiKey: 'a' }, { baseURL: 'b' })),
    'baseUrl',
  ],
  [
    'createClient, limits',
    () => createClient(and({ baseUrl: 'http://a', apiKey: 'a' }, { limits: { answerbytes: 1 } })),
    'limits.answerBytes',
  ],
  ['compare', () => compare(evaluation, evaluation, and({}, { metric: 'success' })), ''],
  [
    'compare',
    () =>
      compare(
        [
          { name: 'a', evaluation },
          { name: 'b', evaluation },
        ],
        and({}, { metric: 'success' }),
      ),
    '',
  ],
  [
    'compare',
    () => compare([{ name: 'a', evaluation }, and({ name: 'b', evaluation }, { price: 1 })]),
    'prices',
  ],
  ['earlyStop', () => earlyStop(and({ metric: 'reward' as const, goal: 1 }, { min_delta: 1 })), 'minDelta'],
  ['linear', () => linear(and({ from: 1, to: 2 }, { form: 1 })), 'from'],
  ['cosine', () => cosine(and({ from: 1, to: 2 }, { steps: 1 })), ''],
  ['warmup', () => warmup(and({ steps: 1, schedule: () => 1 }, { step: 1 })), 'steps'],
  ['relativeJudge', () => relativeJudge(and({ model: judge }, { rubrik: 'a' })), 'rubric'],
  ['gradingJudge', () => gradingJudge(and({ model: judge }, { seed: 1 })), ''],
  [
    'gradingJudge, prices',
    () => gradingJudge(and({ model: judge }, { prices: { inputs: 1 } })),
    'prices.input',
  ],
  ['ScenarioSet.of', () => ScenarioSet.of([1], and({}, { keys: String })), 'key'],
  ['ScenarioSet.fromJsonLines', () => ScenarioSet.fromJsonLines('a', and({}, { scema: 1 })), 'schema'],
  ['ScenarioSet.generate', () => ScenarioSet.generate(function* () {}, and({}, { keys: String })), 'key'],
  ['ScenarioSet.mix', () => ScenarioSet.mix([], and({}, { seeds: 1 })), 'seed'],
  [
    'a set of ScenarioSet.mix',
    () => ScenarioSet.mix([and({ set: ScenarioSet.of([1]), weight: 1 }, { weigth: 2 })]),
    'weight',
  ],
  ['shuffle', () => ScenarioSet.of([1]).shuffle(and({}, { bufferSize: 1 })), 'buffer'],
  ['split', () => ScenarioSet.of([1]).split({ a: 1 }, and({}, { sed: 1 })), 'seed'],
  ['byDifficulty', () => ScenarioSet.of([1]).byDifficulty(and({}, { retry: 1 })), 'retryEvery'],
  [
    'usePolicyAsDefaultProvider',
    () => usePolicyAsDefaultProvider(and({ models: 'all' as const }, { model: 'a' })),
    'models',
  ],
  ['replayModel', () => replayModel(and({ file: 'a' }, { files: 'a' })), 'file'],
  ['replayStep', () => replayStep(and({ runDirectory: 'a', step: 1, environment }, { steps: 1 })), 'step'],
  ['rescore', () => rescore(and({ groups: [], environment }, { form: 'outcome' })), 'from'],
  [
    'defineEnvironment',
    () =>
      defineEnvironment(and({ name: 'a', scenario: z.object({}), rollout: () => 1 }, { reward: () => 1 })),
    'rewards',
  ],
  [
    'defineEnvironment, limits',
    () =>
      defineEnvironment(
        and({ name: 'a', scenario: z.object({}), rollout: () => 1 }, { limits: { tool_calls: 1 } }),
      ),
    'limits.toolCalls',
  ],
  [
    'defineEnvironment, settings',
    () =>
      defineEnvironment(
        and({ name: 'a', scenario: z.object({}), prompt: () => '' }, { settings: { maxTokens: 1 } }),
      ),
    'limits.tokens',
  ],
  ['createEmbeddedEngine', () => createEmbeddedEngine(and({}, { thread: 2 })), 'threads'],
  [
    'a checkpoint of createEmbeddedEngine',
    () =>
      createEmbeddedEngine({
        checkpoints: [{ folder: 'a', lora: and({ rank: 8 }, { target_modules: ['q_proj'] }) }],
      }),
    '',
  ],
  [
    'a checkpoint of createEmbeddedEngine',
    () => createEmbeddedEngine({ checkpoints: [and({ folder: 'a' }, { context_length: 512 })] }),
    'contextLength',
  ],
  [
    'createTinkerEngine',
    () => createTinkerEngine(and({ url: 'http://a', checkpoint: 'b' }, { api_key: 'c' })),
    'apiKey',
  ],
  [
    'startService, limits',
    () =>
      startService({
        engine: { baseModels: [] } as unknown as Engine,
        dataFolder: 'a',
        limits: and({}, { job: 5 }),
      }),
    'limits.jobs',
  ],
  [
    'a weighted reward',
    () =>
      defineEnvironment({
        name: 'a',
        scenario: z.object({}),
        rollout: () => 1,
        rewards: { b: and({ weight: 1, reward: () => 1 }, { weigth: 2 }) },
      }),
    'weight',
  ],
];

/** The options that the message suggests, with `a: { b }` as `a.b`. */
function suggestionsOf({ message }: OptionError): string[] {
  const [, asked = ''] = /Did you mean (.*?)\?/.exec(message) ?? [];
  return [...asked.matchAll(/`([^`]+)`/g)].map(([, name = '']) =>
    name.replaceAll(': { ', '.').replaceAll(' }', ''),
  );
}

describe('an unknown option is refused with the nearest known ones, by', () => {
  test.each(calls)('%s', async (_, call, nearest) => {
    const error = await (async () => call())().then(
      () => null,
      (thrown: unknown) => thrown,
    );
    if (!OptionError.isInstance(error)) throw error;
    expect(error.code).toBe('unknown_option');
    expect(suggestionsOf(error).join(' or ')).toBe(nearest);
  });
});

const inEnvironment = 'defineEnvironment({ limits: { turns } })';
test.each<[string, (more: object) => Promise<unknown>, object, string]>([
  ['train', (more) => train(and(settings, more)), { maxTurns: 3 }, inEnvironment],
  ['train', (more) => train(and(settings, more)), { limits: { turns: 3 } }, inEnvironment],
  [
    'evaluate',
    (more) => evaluate(and({ environment, scenarios, model }, more)),
    { max_turns: 3 },
    inEnvironment,
  ],
  ['runGroups', (more) => runGroups(and(groups, more)), { maxTurns: 3 }, inEnvironment],
  ['train', (more) => train(and(settings, more)), { temperature: 1 }, '`model.with({ temperature })`'],
  [
    'train',
    (more) => train(and(settings, more)),
    { batchSize: 8 },
    'Did you mean `groupsPerStep` or `rolloutsPerGroup`?',
  ],
  ['train', (more) => train(and(settings, more)), { group_size: 8 }, 'Did you mean `rolloutsPerGroup`?'],
  ['train', (more) => train(and(settings, more)), { epochs: 2 }, 'Did you mean `steps`?'],
])('%s refuses an option of another library with its name here', async (_, call, more, remedy) => {
  const refused = call(more);
  await expect(refused).rejects.toMatchObject({ code: 'unknown_option' });
  await expect(refused).rejects.toThrow(remedy);
  await expect(refused).rejects.not.toThrow('validation');
});

test.each<[string, (more: object) => Promise<unknown>, string]>([
  ['train', (more) => train(and(settings, more)), 'invalid_run_option'],
  ['evaluate', (more) => evaluate(and({ environment, scenarios, model }, more)), 'invalid_evaluation_option'],
  ['runGroups', (more) => runGroups(and(groups, more)), 'invalid_rollout_option'],
])('%s refuses missing essential options by name', async (_, call, code) => {
  const refused = async (more: object, message: RegExp) => {
    await expect(call(more)).rejects.toMatchObject({ code });
    await expect(call(more)).rejects.toThrow(message);
  };
  await refused({ model: undefined }, /model`? is undefined.*openModel/);
  await refused({ environment: undefined }, /environment`? is undefined.*defineEnvironment/);
  await refused({ environment: { name: 'x' } }, /environment`? is an object with name.*defineEnvironment/);
  await refused({ scenarios: undefined }, /scenarios`? is undefined.*list/);
});

test('a model to open is refused with its missing field', async () => {
  const lacking = { model: { project: 'p', name: 'n' } };
  await expect(train(and(settings, lacking))).rejects.toThrow(
    '`model.baseModel` is undefined. Pass a model created by `openModel()`',
  );
});

test.each<[object, string]>([
  [{ config: { learning_rate: -1 } }, '`config.learning_rate` is -1: '],
  [{ config: { learning_rate: '1e-3' } }, '`config.learning_rate` is "1e-3": '],
  [{ config: { loss_fn: 'pppo' } }, '`config.loss_fn` is "pppo": '],
  [{ config: { kimi_k2_tau: -1 } }, '`config.kimi_k2_tau` is -1: '],
  [{ config: { ppo: true, loss_fn: 'cispo' } }, '`config.loss_fn` is "cispo": '],
  [{ config: 'fast' }, '`config` is "fast"; pass an object'],
  [
    { steps: 3, config: ({ step }: { step: number }) => ({ learning_rate: 1 - step }) },
    '`config.learning_rate` is 0: Too small: expected number to be >0. `config({ step: 1 })` returned it.',
  ],
  [{ steps: '3' }, '`steps` is "3". Pass a whole number'],
  [{ rolloutTimeoutMs: '50' }, '`rolloutTimeoutMs` is "50". Pass milliseconds'],
  [{ warmStart: { examples: [{}], learningRate: '1e-3' } }, '`warmStart.learningRate` has "1e-3"'],
  [{ warmStart: { examples: [{}], batchSize: '8' } }, '`warmStart.batchSize` is "8"'],
  [{ warmStart: { examples: null } }, '`warmStart.examples` is null. Pass a list'],
])('an invalid value, %j, is refused before the run starts', async (more, message) => {
  const refused = train(and(settings, more));
  await expect(refused).rejects.toMatchObject({ code: 'invalid_run_option' });
  await expect(refused).rejects.toThrow(message);
});

test('a field of config that only another service accepts passes', async () => {
  const config = { plot_tensors: true, kl_ref_adapter_path: 'a', kimi_k2_tau: 0.1, learning_rate: null };
  await expect(train(and(settings, { config }))).rejects.toMatchObject({ code: 'connection_failed' });
});

test('a misplaced learning rate is refused with its place', async () => {
  await expect(train(and(settings, { learningRate: 1e-4 }))).rejects.toThrow(
    /^train\(\) has no option `learningRate`\. Did you mean `config: \{ learning_rate \}` or `warmStart: \{ learningRate \}`\?$/,
  );
});
