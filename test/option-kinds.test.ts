import { readdirSync } from 'node:fs';
import { MockLanguageModelV4 } from 'ai/test';
import {
  callBudget,
  compare,
  constant,
  cosine,
  createClient,
  defineEnvironment,
  earlyStop,
  evaluate,
  evaluationTable,
  externalModel,
  gradingJudge,
  linear,
  ModelHandle,
  OptionError,
  openModel,
  optimize,
  runGroups,
  runOutsideTrajectory,
  ScenarioSet,
  sft,
  TrajectoryGroup,
  train,
  warmup,
  workerThreads,
} from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { openReward, serveEnvironment } from 'martingale/environments';
import {
  followJob,
  logTrajectories,
  pruneCheckpoints,
  runInTrajectory,
  storeGroup,
  submitTraining,
  toScenarioSource,
} from 'martingale/loop';
import { evaluationCsv, readEvaluation, readRun, rescore } from 'martingale/records';
import { startService } from 'martingale/service';
import { recordCalls, replayCalls, replayModel, scriptedModel } from 'martingale/testing';
import { combineEngines, createTinkerEngine } from 'martingale/tinker';
import { afterAll, describe, expect, test } from 'vitest';
import { z } from 'zod';

/** Nothing listens there: what is refused asks for nothing. */
const client = createClient({ baseUrl: 'http://127.0.0.1:9', apiKey: 'a', retries: 0 });
afterAll(() => client.close());
const model = new ModelHandle({ client, name: 'e/p/n', id: '8d4c6f0e-2c55-4a4e-9c3b-6f6d3f3a7a11' });
const scenarios = [{}];
const environment = defineEnvironment({
  name: 'coins',
  scenario: z.object({}),
  prompt: () => '',
  rewards: { zero: () => 0 },
});
const size = { steps: 1, groupsPerStep: 1, rolloutsPerGroup: 2 };
const judge = new MockLanguageModelV4();

/** Calls a function as a program without types does. */
const call = <Result>(work: (...given: never[]) => Result, ...given: unknown[]): Result =>
  Reflect.apply(work, undefined, given);
const training = (more: object) => () =>
  call(train, { environment, scenarios, model, progress: false, ...size, ...more });
const evaluating = (more: object) => () =>
  call(evaluate, { environment, scenarios, model, progress: false, ...more });
const serving = (more: object) => () =>
  call(startService, { engine: { baseModels: [] }, dataFolder: '/nowhere', ...more });
const opening = (more: object) => () => call(createEmbeddedEngine, more);
const defining = (more: object) => () =>
  call(defineEnvironment, { name: 'a', scenario: z.object({}), prompt: () => '', ...more });

const refused: readonly [of: string, work: () => unknown, message: string][] = [
  ['train', training({ signal: {} }), '`signal` is an object without fields. Pass an AbortSignal.'],
  ['train', training({ onEvent: 'log' }), '`onEvent` is "log". Pass a function.'],
  ['train', training({ seed: '3' }), '`seed` is "3". Pass a whole number.'],
  ['train', training({ seed: Number.NaN }), '`seed` is NaN. Pass a whole number.'],
  ['train', training({ runDirectory: '' }), '`runDirectory` is "". Pass a path.'],
  ['train', training({ resume: 'yes' }), '`resume` is "yes". Pass true or false or "auto".'],
  ['train', training({ budget: 100 }), '`budget` is 100. Pass an object with tokens, cost, minutes.'],
  ['train', training({ budget: null }), '`budget` is null. Pass an object with'],
  ['train', training({ prices: 3 }), '`prices` is 3. Pass an object with promptTokensPerMillion'],
  ['train', training({ lostJob: 'wait' }), '`lostJob` is "wait". Pass an object with waitMs, decision.'],
  ['train', training({ lostJob: { waitMs: '9' } }), '`lostJob.waitMs` is "9". Pass a number.'],
  ['train', training({ stopWhen: 3 }), '`stopWhen` is 3. Pass a function.'],
  ['train', training({ executor: {} }), '`executor` is an object without fields. Pass an executor'],
  ['train', training({ onUnexpectedCall: 'ignore' }), '`onUnexpectedCall` is "ignore". Pass "error" or'],
  ['train', () => call(train), 'train() got undefined in place of its options. Pass an object with some of'],
  ['evaluate', evaluating({ timeoutMs: '9' }), '`timeoutMs` is "9". Pass a number.'],
  ['evaluate', evaluating({ passAt: 3 }), '`passAt` is 3. Pass a list.'],
  ['createClient', () => call(createClient, { baseUrl: 'a', apiKey: 'a', retries: '3' }), '`retries` is "3"'],
  ['earlyStop', () => call(earlyStop, { metric: 'loss', goal: 1 }), '`metric` is "loss". Pass "validation"'],
  ['linear', () => call(linear, { from: '1', to: 2 }), '`from` is "1". Pass a number.'],
  ['ScenarioSet', () => call(ScenarioSet.of, [1], { key: 'id' }), '`key` is "id". Pass a function.'],
  ['defineEnvironment', defining({ rewards: 3 }), '`rewards` is 3. Pass an object.'],
  ['train', training({ client: 'http://a' }), '`client` is "http://a". Pass a client created by'],
  ['evaluate', evaluating({ key: 'id' }), '`key` is "id". Pass a function.'],
  ['evaluate', evaluating({ directory: 3 }), '`directory` is 3. Pass a path.'],
  ['evaluate', evaluating({ isSuccess: true }), '`isSuccess` is true. Pass a function.'],
  [
    'runGroups',
    () => call(runGroups, { environment, scenarios, model, rolloutsPerGroup: 1, onGroup: 'x' }),
    '`onGroup` is "x"',
  ],
  ['sft', () => call(sft, { model: 'e/p/n', examples: [] }), '`model` is "e/p/n". Pass a model created by'],
  ['sft', () => call(sft, { model, examples: [], timeoutMs: '9' }), '`timeoutMs` is "9". Pass a number.'],
  [
    'openModel',
    () => call(openModel, { client, project: 3, name: 'n', baseModel: 'b' }),
    '`project` is 3. Pass a text.',
  ],
  ['followJob', () => call(followJob, { client: {}, jobId: 'a' }), '`client` is an object without fields'],
  ['pruneCheckpoints', () => call(pruneCheckpoints, { model: 'a', steps: [], keep: 1 }), '`model` is "a"'],
  ['rescore', () => call(rescore, { environment, groups: [], from: 'log' }), '`from` is "log". Pass "out'],
  ['replayModel', () => call(replayModel, { file: 3 }), '`file` is 3. Pass a path.'],
  [
    'externalModel',
    () => call(externalModel, judge, { settings: { temperature: '0' } }),
    '`settings.temperature` is "0". Pass a number from 0 to 2.',
  ],
  ['ModelHandle', () => Reflect.construct(ModelHandle, [{ client, name: 3 }]), '`name` is 3. Pass a text.'],
  ['with', () => call(model.with.bind(model), { topP: '1' }), '`topP` is "1". Pass a number above 0'],
  [
    'with',
    () => call(model.with.bind(model), { temperature: -1 }),
    '`temperature` is -1. Pass a number from 0 to 2.',
  ],
  [
    'with',
    () => call(model.with.bind(model), { topP: 0 }),
    '`topP` is 0. Pass a number above 0 and up to 1.',
  ],
  [
    'with',
    () => call(model.with.bind(model), { topK: -2 }),
    '`topK` is -2. Pass a whole number of at least 1',
  ],
  ['with', () => call(model.with.bind(model), { minP: 2 }), '`minP` is 2. Pass a number from 0 to 1.'],
  [
    'with',
    () => call(model.with.bind(model), { maxOutputTokens: 0 }),
    '`maxOutputTokens` is 0. Pass a whole',
  ],
  ['at', () => call(model.at.bind(model), 1.5), '`step` is 1.5. Pass a whole number of at least 0.'],
  ['evaluate', evaluating({ temperature: -1 }), '`temperature` is -1. Pass a number from 0 to 2.'],
  ['evaluate', evaluating({ rolloutsPerScenario: 1.5 }), '`rolloutsPerScenario` is 1.5. Pass a whole number'],
  [
    'train',
    training({ validation: { scenarios, temperature: 3 } }),
    '`validation.temperature` is 3. Pass a number from 0 to 2.',
  ],
  ['scriptedModel', () => call(scriptedModel, 'yes'), '`reply` is "yes". Pass a function.'],
  [
    'TrajectoryGroup',
    () => Reflect.construct(TrajectoryGroup, [{}]),
    '`trajectories` is undefined. Pass a list.',
  ],
  ['combineEngines', () => call(combineEngines, {}), '`engines` is an object without fields. Pass a list.'],
  ['evaluationCsv', () => call(evaluationCsv, {}), '`evaluation` is an object without fields. Pass an'],
  ['evaluationTable', () => call(evaluationTable), '`evaluation` is undefined. Pass an evaluation'],
  ['gradingJudge', () => call(gradingJudge, { model: judge, rubric: 3 }), '`rubric` is 3. Pass a text.'],
  ['defineEnvironment', defining({ limits: 9 }), '`limits` is 9. Pass an object with turns, tokens'],
  ['defineEnvironment', defining({ setup: {} }), '`setup` is an object without fields. Pass a function.'],
  ['createEmbeddedEngine', opening({ onFetch: 1 }), '`onFetch` is 1. Pass a function.'],
  ['createEmbeddedEngine', opening({ checkpoints: 'a' }), '`checkpoints` is "a". Pass a list.'],
  ['createEmbeddedEngine', opening({ checkpoints: [{ folder: 3 }] }), '`folder` is 3. Pass a path.'],
  ['createTinkerEngine', () => call(createTinkerEngine, { url: 'http://a', checkpoint: 3 }), '`checkpoint`'],
  ['startService', serving({ engine: 'embedded' }), '`engine` is "embedded". Pass an engine'],
  ['startService', serving({ dataFolder: '' }), '`dataFolder` is "". Pass a path.'],
  ['startService', serving({ port: '80' }), '`port` is "80". Pass a whole number from 0 to 65535.'],
  ['startService', serving({ port: 65_536 }), '`port` is 65536. Pass a whole number from 0 to 65535.'],
  ['startService', serving({ receiveTimeoutMs: 0 }), '`receiveTimeoutMs` is 0. Pass a whole number of at'],
  ['startService', serving({ closeTimeoutMs: -1 }), '`closeTimeoutMs` is -1. Pass a whole number of at'],
  ['startService', serving({ bodyLimits: { chat: '9' } }), '`bodyLimits.chat` is "9". Pass a whole number'],
  ['startService', serving({ trainingData: { hosts: 'a' } }), '`trainingData.hosts` is "a". Pass a list.'],
  ['startService', serving({ priorityScheduling: 'no' }), '`priorityScheduling` is "no". Pass true or'],
  [
    'serveEnvironment',
    () => call(serveEnvironment, { environment, scenarios: {}, port: -1 }),
    '`port` is -1. Pass a whole number from 0',
  ],
  ['openReward', () => call(openReward, 'http://a', { system: 3 }), '`system` is 3. Pass a text.'],
  ['evaluate', () => call(evaluate), 'evaluate() got undefined in place of its options.'],
  ['optimize', () => call(optimize, null), 'optimize() got null in place of its options.'],
  ['sft', () => call(sft), 'sft() got undefined in place of its options.'],
  ['sft', () => call(sft, { examples: [] }), '`model` is undefined. Pass a model created by'],
  ['defineEnvironment', () => call(defineEnvironment), '`options` is undefined. Pass an object.'],
  ['openModel', () => call(openModel, { client }), '`project` is undefined. Pass a text.'],
  ['followJob', () => call(followJob, { client }), '`jobId` is undefined. Pass a text.'],
  ['pruneCheckpoints', () => call(pruneCheckpoints, { model, steps: [1] }), '`keep` is undefined. It is'],
  ['storeGroup', () => call(storeGroup, { model, group: {} }), '`group` is an object without fields. Pass a'],
  ['submitTraining', () => call(submitTraining, { model }), '`groups` is undefined. Pass a list.'],
  [
    'logTrajectories',
    () => call(logTrajectories, { model, groups: [] }),
    '`split` is undefined. Pass a text.',
  ],
  ['rescore', () => call(rescore, { groups: [] }), '`environment` is undefined. '],
  ['replayModel', () => call(replayModel, {}), '`file` is undefined. Pass a path.'],
  ['replayCalls', () => call(replayCalls), 'replayCalls() got undefined in place of its options.'],
  ['recordCalls', () => call(recordCalls, { file: 'a' }), '`completions` is undefined. It is required.'],
  ['constant', () => call(constant, '1e-3'), '`value` is "1e-3". Pass a number.'],
  ['cosine', () => call(cosine, { from: 1 }), '`to` is undefined. Pass a number.'],
  [
    'warmup',
    () => call(warmup, { steps: 1.5, schedule: () => 1 }),
    '`steps` is 1.5. Pass a whole number of at',
  ],
  [
    'workerThreads',
    () => call(workerThreads, { environment: './a.ts' }),
    '`environment` is "./a.ts". Pass new URL(',
  ],
  [
    'externalModel',
    () => call(externalModel, { id: 'a' }),
    '`model` is an object with id. Pass a model of the AI',
  ],
  ['readRun', () => call(readRun, 3), '`runDirectory` is 3. Pass a path.'],
  ['readEvaluation', () => call(readEvaluation, ''), '`path` is "". Pass a path.'],
  ['compare', () => call(compare, { perScenario: [] }, Promise.resolve()), '`b` is'],
  ['ScenarioSet.mix', () => call(ScenarioSet.mix, null), '`sets` is null. Pass a list.'],
  [
    'ScenarioSet.mix',
    () => call(ScenarioSet.mix, [{ set: { take: 1 }, weight: 1 }]),
    '`sets[0].set` is an object with take',
  ],
  ['ScenarioSet.generate', () => call(ScenarioSet.generate, [1]), '`generate` is'],
  ['ScenarioSet.fromJsonLines', () => call(ScenarioSet.fromJsonLines, 3), '`path` is 3. Pass a path.'],
  ['toScenarioSource', () => call(toScenarioSource, null, 1), '`scenarios` is null. Pass a list or a'],
  ['runOutsideTrajectory', () => call(runOutsideTrajectory, Promise.resolve()), '`body` is'],
  ['runInTrajectory', () => call(runInTrajectory, null), '`body` is undefined. Pass a function.'],
];

describe('a value of another kind is refused before anything begins, with what to pass, by', () => {
  test.each(refused)('%s %#', async (_, work, message) => {
    const before = readdirSync('.');
    const error = await (async () => work())().then(
      () => null,
      (thrown: unknown) => thrown,
    );
    if (!OptionError.isInstance(error)) throw error;
    expect(error.code).toBe('invalid_option');
    expect(error.message).toContain(message);
    expect(readdirSync('.')).toEqual(before);
  });
});

test('a credit, scenarios and examples of another kind are refused too', async () => {
  expect(() => defining({ credit: 'all' })()).toThrow('`credit` is "all". Give { discount }, or a function');
  await expect(training({ scenarios: { a: 1 } })()).rejects.toThrow(
    '`scenarios` is an object with a. Pass a',
  );
  const trained = call(sft, { model, examples: 3 });
  await expect(trained).rejects.toThrow('`examples` is 3. Pass a list of conversations');
});

test('a checkpoint to keep, a deadline and bounds of another range are refused before anything is deleted', async () => {
  for (const keep of [-1, 1.5, Number.NaN, '2'])
    await expect(call(pruneCheckpoints, { model, steps: [1, 2], keep })).rejects.toMatchObject({
      option: 'keep',
    });
  await expect(followJob({ client, jobId: 'a', timeoutMs: -1 })).rejects.toThrow('`timeoutMs` is -1. Pass');
  expect(() => call(callBudget, {})).toThrow(
    '`concurrency` is undefined. Pass a whole number of at least 1, or',
  );
});

test('an option that is undefined counts as left out', async () => {
  const left = { signal: undefined, onEvent: undefined, budget: undefined, seed: undefined };
  await expect(training(left)()).rejects.toMatchObject({ code: 'connection_failed' });
});
