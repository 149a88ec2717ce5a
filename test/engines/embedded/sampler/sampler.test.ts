import { describe, expect, it, vi } from 'vitest';
import { Decoder } from '../../../../src/engines/embedded/sampler/decoder.ts';
import { Sampler } from '../../../../src/engines/embedded/sampler/sampler.ts';
import type { SamplingCall, WorkerAnswer } from '../../../../src/engines/embedded/threads/worker-messages.ts';
import { plainSampling } from '../../../../src/learning/index.ts';
import { encode, runtime, sources } from './support.ts';

const weights = { baseModel: 'martingale-tiny', folder: null };
const prompt = encode('hello');
const request = {
  weights,
  prompt,
  sampling: plainSampling,
  maxTokens: 4,
  stopStrings: [],
  stopTokens: [],
  plan: null,
  topLogprobs: 0,
  priority: 0,
  cacheSalt: null,
};
const calls: SamplingCall[] = [
  { type: 'generate', request, stream: true },
  { type: 'search', request: { ...request, width: 3, lengthPenalty: 1 } },
  { type: 'score', request: { weights, prompt, top: 2 } },
];

describe('the sampler', () => {
  const open = () => new Sampler(runtime, { largestBatch: 8, prefixCacheBytes: 0 }, sources);
  const drain = async (sampler: Sampler) => {
    const answers: WorkerAnswer[] = [];
    while (sampler.busy) answers.push(...(await sampler.step()));
    return answers;
  };

  it('answers each kind of call with its kind of result', async () => {
    const sampler = open();
    await Promise.all(calls.map((call, id) => sampler.add(id, call)));
    const answers = await drain(sampler);
    const results = new Map(
      answers.flatMap((answer) => ('result' in answer ? [[answer.id, answer.result]] : [])),
    );
    expect([...results.keys()].sort()).toEqual([0, 1, 2]);
    expect(results.get(0)).toHaveProperty('finishReason');
    expect(results.get(1)).toEqual(
      expect.arrayContaining([expect.objectContaining({ finishReason: 'length' })]),
    );
    expect(results.get(2)).toEqual(
      expect.arrayContaining([null, expect.objectContaining({ rank: expect.any(Number) })]),
    );
    expect(answers.filter((answer) => 'failure' in answer)).toEqual([]);
    const streamed = answers.flatMap((answer) => ('delta' in answer ? [answer.id] : []));
    expect(new Set(streamed)).toEqual(new Set([0]));
  });

  it('sends what each of many streams has less often', async () => {
    const clock = vi.spyOn(performance, 'now');
    const deltasOf = async (streams: number) => {
      const sampler = new Sampler(runtime, { largestBatch: 128, prefixCacheBytes: 0 }, sources);
      const long = { ...request, sampling: { ...plainSampling, ignoreEnd: true }, maxTokens: 9 };
      const call: SamplingCall = { type: 'generate', request: long, stream: true };
      await Promise.all(Array.from({ length: streams }, (_, id) => sampler.add(id, call)));
      const sizes: number[] = [];
      for (let now = 1000; sampler.busy; now += 6) {
        clock.mockReturnValue(now);
        for (const answer of await sampler.step())
          if (answer.id === 0 && 'delta' in answer) sizes.push(answer.delta.tokens.length);
      }
      await sampler.close();
      return sizes;
    };
    expect(await deltasOf(1)).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 1]);
    expect(await deltasOf(100)).toEqual([1, 2, 2, 2, 2]);
    clock.mockRestore();
  });

  it('never computes what was cancelled while its weights were being loaded', async () => {
    const run = vi.spyOn(Decoder.prototype, 'run');
    try {
      const sampler = open();
      const adding = calls.map((call, id) => sampler.add(id, call));
      for (const id of calls.keys()) sampler.cancel(id);
      await Promise.all(adding);
      expect(sampler.busy).toBe(false);
      expect(run).not.toHaveBeenCalled();
    } finally {
      run.mockRestore();
    }
  });

  it('sends nothing for calls that were cancelled while they waited or ran', async () => {
    const sampler = open();
    await Promise.all(calls.map((call, id) => sampler.add(id, call)));
    await sampler.step();
    await sampler.add(7, calls[0] as SamplingCall);
    for (const id of [0, 1, 2, 7]) sampler.cancel(id);
    expect(await drain(sampler)).toEqual([]);
  });

  it('refuses at once what is wider than its batches', async () => {
    const sampler = open();
    const wide: SamplingCall = { type: 'search', request: { ...request, width: 9, lengthPenalty: 1 } };
    await expect(sampler.add(1, wide)).rejects.toThrow(/width 9/);
    expect(sampler.busy).toBe(false);
  });
});
