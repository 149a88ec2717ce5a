import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { MockLanguageModelV4 } from 'ai/test';
import { optimize } from 'martingale';
import { describe, expect, test } from 'vitest';
import { saying } from '../model/mock-replies.ts';
import { sharedFolder } from '../support/files.ts';
import { fromSource } from '../support/programs.ts';
import { addCode, type CodesOptions, codes, knowingModel, scenarios, validation } from './codes.ts';

const folder = sharedFolder();
let runs = 0;

function start(options: CodesOptions = {}) {
  const { model, asked } = knowingModel();
  const runDirectory = join(folder, `run-${runs++}`);
  const whole = {
    environment: codes,
    scenarios,
    validation,
    model,
    reflect: addCode,
    iterations: 3,
    runDirectory,
    progress: false,
    ...options,
  } as const;
  return { whole, asked, run: (more: CodesOptions = {}) => optimize({ ...whole, ...more }) };
}

const summaryOf = async ({ runDirectory }: { runDirectory: string }) =>
  JSON.parse(await readFile(join(runDirectory, 'summary.json'), 'utf8'));

describe('a `reflect` that fails', () => {
  test('by throwing ends the run, which goes on with the next call and pays nothing again', async () => {
    const { run, whole, asked } = start();
    const failing = run({ reflect: () => Promise.reject(new TypeError('no credit left')) });
    await expect(failing).rejects.toMatchObject({
      code: 'reflection_failed',
      message: expect.stringContaining('no credit left'),
    });
    expect(await summaryOf(whole)).toMatchObject({ reason: 'failed', steps: 0, best: 0 });
    const before = asked.calls;
    expect(before).toBe(validation.length + 3);
    const resumed = await run({ resume: true });
    expect(resumed.iterations).toHaveLength(4);
    expect(resumed.spent.rollouts).toBe(asked.calls);
  });

  test('by never answering ends the run at its deadline', async () => {
    const { run } = start({ reflectTimeoutMs: 30 });
    const signals: AbortSignal[] = [];
    const waiting = run({
      reflect: ({ signal }) => {
        signals.push(signal);
        return new Promise(() => undefined);
      },
    });
    await expect(waiting).rejects.toMatchObject({
      code: 'reflection_failed',
      message: expect.stringContaining('within 30 ms'),
    });
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  });

  test.each([
    ['nothing', ''],
    ['no marks', 'You could tell it the codes.'],
    ['empty marks', 'Here: <new_text> </new_text>'],
    ['the same text', `<new_text>${codes.texts.system}</new_text>`],
  ])('by answering %s costs an iteration and what it used', async (_, answer) => {
    const { run } = start({ texts: ['system'] });
    const reflect = new MockLanguageModelV4({ doGenerate: async () => saying(answer) });
    const { iterations, candidates, spent, reason } = await run({ reflect });
    expect(reason).toBe('finished');
    expect(iterations.map(({ outcome }) => outcome)).toEqual(['accepted', ...Array(3).fill('no_proposal')]);
    expect(candidates).toHaveLength(1);
    expect(spent.reflect).toEqual({ promptTokens: 30, sampledTokens: 12 });
  });

  test('by returning something else than a text is named', async () => {
    const { run } = start();
    // A caller without a type checker.
    const wrong: unknown = () => ({ text: 3 });
    await expect(run(Object.fromEntries([['reflect', wrong]]))).rejects.toMatchObject({
      message: expect.stringContaining('it returned number'),
    });
  });
});

describe('a budget', () => {
  test('of rollouts is never exceeded, and a larger one goes on', async () => {
    const { run, asked } = start({ budget: { rollouts: 12 }, iterations: 6 });
    const first = await run();
    expect(first).toMatchObject({ reason: 'budget', because: expect.stringContaining('of 12 rollouts') });
    expect(first.spent.rollouts).toBe(asked.calls);
    expect(asked.calls).toBeLessThanOrEqual(12);
    const second = await run({ resume: true, budget: { rollouts: 200 } });
    expect(second.spent.rollouts).toBe(asked.calls);
    const { asked: other, run: whole } = start({ iterations: 6 });
    const uninterrupted = await whole();
    expect(second.best).toEqual(uninterrupted.best);
    expect(asked.calls).toBe(other.calls);
  });

  test('of cost ends the rollouts in flight, and of tokens too', async () => {
    const prices = { promptTokensPerMillion: 1e6, sampledTokensPerMillion: 1e6 };
    const { run, asked } = start({ concurrency: 1, budget: { cost: 15 }, prices });
    const result = await run();
    expect(result).toMatchObject({ reason: 'budget', because: expect.stringContaining('of a cost of 15') });
    // Each call costs 2, and one more may have begun while the eighth was being stored.
    expect(asked.calls).toBeGreaterThanOrEqual(8);
    expect(asked.calls).toBeLessThan(validation.length + 2 * 3 + validation.length);
    const tokens = start({ budget: { tokens: 1 }, concurrency: 1 });
    await expect(tokens.run()).rejects.toMatchObject({
      code: 'no_score',
      message: expect.stringContaining('of 1 tokens'),
    });
  });

  test('of cost needs the prices of both models', async () => {
    const { run } = start({ reflect: new MockLanguageModelV4({}) });
    const prices = { promptTokensPerMillion: 1, sampledTokensPerMillion: 1 };
    await expect(run({ budget: { cost: 1 } })).rejects.toMatchObject({ option: 'budget.cost' });
    await expect(run({ budget: { cost: 1 }, prices })).rejects.toThrow('`reflectPrices`');
  });
});

test('a stopped run returns what it has, and goes on', async () => {
  const stop = new AbortController();
  const { run } = start({ signal: stop.signal, iterations: 4 });
  const stopped = await run({
    reflect: (request) => {
      stop.abort();
      return addCode(request);
    },
  });
  expect(stopped).toMatchObject({ reason: 'stopped', best: { number: 0 } });
  const resumed = await run({ resume: true, signal: new AbortController().signal });
  expect(resumed).toMatchObject({ reason: 'finished' });
  expect(resumed.iterations).toHaveLength(5);
});

test('rollouts that fail have no score: of the own texts they end the run, of a proposal they reject it', async () => {
  const broken = knowingModel((calls) => {
    if (calls === 2) throw new Error('away');
  });
  const { run } = start({ model: broken.model, iterations: 1 });
  await expect(run()).rejects.toMatchObject({ code: 'no_score', message: expect.stringContaining('1 of 4') });
  // The rollout without a score runs again; the other three do not.
  const resumed = await run({ resume: true });
  expect(resumed.spent.rollouts).toBe(broken.asked.calls - 1);

  const frail = knowingModel((calls) => {
    if (calls > validation.length + 3) throw new Error('away');
  });
  const rejected = await start({ model: frail.model, iterations: 1 }).run();
  expect(rejected.iterations[1]).toMatchObject({
    outcome: 'rejected',
    because: '3 of 3 scenarios did not complete',
    after: [null, null, null],
  });
});

test('a run directory with other options, or of another run, is refused', async () => {
  const { run, whole } = start({ iterations: 1 });
  await run();
  await expect(run()).rejects.toMatchObject({ option: 'runDirectory' });
  await expect(run({ resume: true, seed: 5, minibatch: 2 })).rejects.toMatchObject({
    code: 'resume_refused',
    message: expect.stringMatching(/`seed` was 0 and is 5; `minibatch` was 3 and is 2/),
  });
  await expect(run({ resume: true, environment: codes.withTexts({ hint: 'Other.' }) })).rejects.toMatchObject(
    { message: expect.stringContaining('`texts` was') },
  );
  await appendFile(join(whole.runDirectory, 'optimization.jsonl'), '{"type":"other"}\n');
  await expect(run({ resume: true })).rejects.toMatchObject({
    code: 'invalid_run_record',
    message: expect.stringContaining('Line 4'),
  });
});

test.each([
  ['texts', { texts: [] }],
  ['minibatch', { minibatch: 9 }],
  ['iterations', { iterations: 0 }],
  ['validation', { validation: [] }],
  ['reflectTimeoutMs', { reflectTimeoutMs: 0 }],
  ['budget.rollouts', { budget: { rollouts: -1 } }],
  ['rolloutsPerScenario', { rolloutsPerScenario: 0 }],
] satisfies [string, CodesOptions][])(
  'a wrong `%s` is refused before anything runs',
  async (option, wrong) => {
    const { run, asked } = start();
    await expect(run(wrong)).rejects.toMatchObject({ name: 'OptionError', option });
    expect(asked.calls).toBe(0);
  },
);

const program = fileURLToPath(new URL('program.ts', import.meta.url));

async function inProcess(directory: string, ...kill: string[]) {
  const child = spawn(process.execPath, [...fromSource, program, directory, ...kill], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [output, [code, signal]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  return { result: output === '' ? null : JSON.parse(output), code, signal };
}

const lengthOf = async (path: string) => (await readFile(path, 'utf8').catch(() => '')).length;
const linesIn = async (path: string) =>
  (await readFile(path, 'utf8').catch(() => '')).split('\n').slice(0, -1);

async function storedIn(directory: string) {
  const trajectories = join(directory, 'trajectories');
  const files = await readdir(trajectories);
  const groups = await Promise.all(files.map((file) => linesIn(join(trajectories, file))));
  const records = await linesIn(join(directory, 'optimization.jsonl'));
  return {
    groups: groups.flat().length,
    proposals: records.filter((line) => line.includes('"type":"proposal"')).length,
  };
}

test.each([
  ['call', '2'],
  ['call', '9'],
  ['call', '14'],
  ['reflect', '2'],
])(
  'a process killed at %s %s goes on where it was, with the same result',
  { tags: ['long'] },
  async (...kill) => {
    const counts = async (parent: string) =>
      Promise.all(['call', 'reflect'].map((kind) => lengthOf(join(parent, `${kind}.log`))));
    const [whole, killed] = ['whole', 'killed'].map((name) => join(folder, `${name}-${kill.join('-')}`));
    if (!whole || !killed) throw new TypeError('no folders');
    await mkdir(whole);
    await mkdir(killed);
    const uninterrupted = await inProcess(join(whole, 'run'));
    const [calls = 0, reflections = 0] = await counts(whole);

    expect(await inProcess(join(killed, 'run'), ...kill)).toMatchObject({ signal: 'SIGKILL' });
    const stored = await storedIn(join(killed, 'run'));
    const [callsBefore = 0, reflectionsBefore = 0] = await counts(killed);
    // A process may be killed in the middle of a line too.
    await appendFile(join(killed, 'run', 'optimization.jsonl'), '{"type":"prop');
    const resumed = await inProcess(join(killed, 'run'));
    const [callsAfter = 0, reflectionsAfter = 0] = await counts(killed);
    expect(resumed.result).toEqual(uninterrupted.result);
    expect(callsAfter - callsBefore).toBe(calls - stored.groups);
    expect(reflectionsAfter - reflectionsBefore).toBe(reflections - stored.proposals);
  },
);
