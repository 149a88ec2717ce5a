import { once } from 'node:events';
import { appendFile, mkdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { OptionError, relativeJudge, type Trajectory } from 'martingale';
import { beforeEach, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../support/files.ts';
import { answering, judgeModel, scoringBy } from './judge-model.ts';

const scores = { good: 0.9, middling: 0.5, bad: 0.1 };
const group = (...trajectories: Trajectory[]) => ({
  scenario: {},
  members: trajectories.map((trajectory) => ({ outcome: '', trajectory, reward: 0 })),
  signal: new AbortController().signal,
});
const pair = () => group(answering('good'), answering('bad'));
const turned = () => group(answering('bad'), answering('good'));

let folder: string;
let cacheFile: string;
beforeEach(async () => {
  folder = await temporaryFolder();
  cacheFile = join(folder, 'verdicts', 'jokes.jsonl');
});

const judgeOf = (options: object = {}) => {
  const model = judgeModel(scoringBy(scores));
  return { model, judge: relativeJudge({ model, ...options }) };
};

describe('a verdict', () => {
  test('is requested once, whatever the order of the conversations', async () => {
    const { judge, model } = judgeOf();
    expect(await judge(pair())).toEqual([0.9, 0.1]);
    expect(await judge(turned())).toEqual([0.1, 0.9]);
    const members = turned();
    await judge(members);
    expect(members.members[0]?.trajectory.logs).toEqual(['Judged 0.1 of 1: it says bad']);
    expect(model.doGenerateCalls).toHaveLength(1);
    expect(judge.usage).toMatchObject({ calls: 1, cached: 2 });
    await judge(group(answering('good'), answering('middling')));
    expect(model.doGenerateCalls).toHaveLength(2);
  });

  test('is requested once for several callers at the same time', async () => {
    const { judge, model } = judgeOf({ cacheFile });
    const stopped = new AbortController();
    const asks = [pair(), turned(), pair()].map(judge);
    const left = judge({ ...pair(), signal: stopped.signal });
    stopped.abort(new Error('enough'));
    await expect(left).rejects.toThrow('enough');
    expect(await Promise.all(asks)).toEqual([
      [0.9, 0.1],
      [0.1, 0.9],
      [0.9, 0.1],
    ]);
    expect(model.doGenerateCalls).toHaveLength(1);
    expect(judge.usage).toMatchObject({ calls: 1 });
    expect((await readFile(cacheFile, 'utf8')).trimEnd().split('\n')).toHaveLength(1);
  });

  test('is returned with a warning if its file cannot be written', async () => {
    const { judge } = judgeOf({ cacheFile });
    await judge(pair());
    await rm(cacheFile);
    await mkdir(cacheFile);
    const warned = once(process, 'warning');
    expect(await judge(group(answering('good'), answering('middling')))).toEqual([0.9, 0.5]);
    expect((await warned)[0]).toMatchObject({ code: 'martingale_verdict_not_stored' });
    await expect(judgeOf({ cacheFile }).judge(pair())).rejects.toThrow(OptionError);
  });

  test('is requested again if anything that it depends on differs', async () => {
    const { judge, model } = judgeOf({ cacheFile });
    await judge(pair());
    for (const options of [
      { rubric: 'Longer wins.' },
      { temperature: 0.3 },
      { task: () => 'Be kind.' },
      { describe: () => 'x' },
    ]) {
      await relativeJudge({ model, cacheFile, ...options })(pair());
    }
    expect(model.doGenerateCalls).toHaveLength(5);
  });

  test('is not stored if it is unusable', async () => {
    const model = judgeModel((shown, call) => (call === 0 ? 'no idea' : scoringBy(scores)(shown)));
    const judge = relativeJudge({ model, attempts: 1 });
    await expect(judge(pair())).rejects.toThrow('not JSON');
    expect(await judge(pair())).toEqual([0.9, 0.1]);
  });

  test('in a file is known to the next process', async () => {
    await judgeOf({ cacheFile }).judge(pair());
    const next = judgeOf({ cacheFile });
    expect(await next.judge(turned())).toEqual([0.1, 0.9]);
    expect(next.model.doGenerateCalls).toHaveLength(0);
    expect(next.judge.usage).toMatchObject({ calls: 0, cached: 1 });
  });

  test('with a torn line is requested again, and later lines are read', async () => {
    await judgeOf({ cacheFile }).judge(pair());
    const { length } = await readFile(cacheFile);
    await truncate(cacheFile, length - 20);
    const second = judgeOf({ cacheFile });
    expect(await second.judge(pair())).toEqual([0.9, 0.1]);
    expect(second.model.doGenerateCalls).toHaveLength(1);
    const third = judgeOf({ cacheFile });
    await third.judge(pair());
    expect(third.model.doGenerateCalls).toHaveLength(0);
  });

  test('in an edited file is not used if it is invalid', async () => {
    await judgeOf({ cacheFile }).judge(pair());
    await writeFile(cacheFile, (await readFile(cacheFile, 'utf8')).replace('0.9', '9'));
    const { judge, model } = judgeOf({ cacheFile });
    expect(await judge(pair())).toEqual([0.9, 0.1]);
    expect(model.doGenerateCalls).toHaveLength(1);
  });

  test('is refused in a file of something else', async () => {
    await judgeOf({ cacheFile }).judge(pair());
    await appendFile(cacheFile, 'name,score\n');
    const { judge } = judgeOf({ cacheFile });
    await expect(judge(pair())).rejects.toThrow(OptionError);
    await expect(judge(pair())).rejects.toThrow('line 2');
  });

  test('is dropped from memory for newer ones', async () => {
    const { judge, model } = judgeOf({ cacheSize: 1 });
    await judge(pair());
    await judge(group(answering('good'), answering('middling')));
    await judge(pair());
    expect(model.doGenerateCalls).toHaveLength(3);
  });
});

describe('the usage of a judge', () => {
  test('counts all answers, unusable ones too, with their price', async () => {
    const model = judgeModel((shown, call) => (call === 0 ? 'no idea' : scoringBy(scores)(shown)));
    const judge = relativeJudge({ model, prices: { input: 3, output: 15 } });
    expect(judge.usage).toEqual({ calls: 0, cached: 0, inputTokens: 0, outputTokens: 0, cost: 0 });
    await judge(pair());
    expect(judge.usage).toMatchObject({ calls: 2, inputTokens: 20, outputTokens: 8 });
    expect(judge.usage.cost).toBeCloseTo((20 * 3 + 8 * 15) / 1e6, 12);
  });

  test('has no cost without prices', async () => {
    const { judge } = judgeOf();
    await judge(pair());
    expect(judge.usage).toMatchObject({ inputTokens: 10, outputTokens: 4, cost: null });
  });
});

test('an aborted judge rejects with the reason', async () => {
  const reason = new Error('the run was stopped');
  const { judge } = judgeOf();
  await expect(judge({ ...pair(), signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
});
