import { describe, expect, it, vi } from 'vitest';
import { Decoder } from '../../../../src/engines/embedded/sampler/decoder.ts';
import { Sampler } from '../../../../src/engines/embedded/sampler/sampler.ts';
import type { SamplerCall, SamplerReport } from '../../../../src/engines/embedded/threads/worker-messages.ts';
import { plainSampling } from '../../../../src/learning/index.ts';
import { codec, encode, runtime } from './support.ts';

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
const calls: SamplerCall[] = [
  { type: 'generate', request, stream: true },
  { type: 'search', request: { ...request, width: 3, lengthPenalty: 1 } },
  { type: 'score', request: { weights, prompt, top: 2 } },
];

describe('the sampler', () => {
  const open = () => new Sampler(runtime, { largestBatch: 8, prefixCacheBytes: 0 }, codec);
  const drain = async (sampler: Sampler) => {
    const reports: SamplerReport[] = [];
    while (sampler.busy) reports.push(await sampler.step());
    return reports;
  };
  const idsOf = (reports: SamplerReport[], kind: keyof SamplerReport) =>
    reports.flatMap((report) => report[kind].map(({ id }) => id));

  it('answers each kind of call with its own kind of result', async () => {
    const sampler = open();
    await Promise.all(calls.map((call, id) => sampler.add(id, call)));
    const reports = await drain(sampler);
    const results = new Map(
      reports.flatMap(({ finished }) => finished.map(({ id, result }) => [id, result])),
    );
    expect([...results.keys()].sort()).toEqual([0, 1, 2]);
    expect(results.get(0)).toHaveProperty('finishReason');
    expect(results.get(1)).toEqual(
      expect.arrayContaining([expect.objectContaining({ finishReason: 'length' })]),
    );
    expect(results.get(2)).toEqual(
      expect.arrayContaining([null, expect.objectContaining({ rank: expect.any(Number) })]),
    );
    expect(idsOf(reports, 'failed')).toEqual([]);
    expect(new Set(idsOf(reports, 'deltas'))).toEqual(new Set([0]));
  });

  it('never computes what was cancelled while its weights were being loaded', async () => {
    const runs = [vi.spyOn(Decoder.prototype, 'run'), vi.spyOn(Decoder.prototype, 'runThrough')];
    try {
      const sampler = open();
      const adding = calls.map((call, id) => sampler.add(id, call));
      for (const id of calls.keys()) sampler.cancel(id);
      await Promise.all(adding);
      expect(sampler.busy).toBe(false);
      for (const run of runs) expect(run).not.toHaveBeenCalled();
    } finally {
      for (const run of runs) run.mockRestore();
    }
  });

  it('says nothing of what was cancelled while it waited or ran', async () => {
    const sampler = open();
    await Promise.all(calls.map((call, id) => sampler.add(id, call)));
    await sampler.step();
    await sampler.add(7, calls[0] as SamplerCall);
    for (const id of [0, 1, 2, 7]) sampler.cancel(id);
    const reports = await drain(sampler);
    expect(reports.flatMap((report) => Object.values(report).flat())).toEqual([]);
  });

  it('refuses at once what its batches have no room for', async () => {
    const sampler = open();
    const wide: SamplerCall = { type: 'search', request: { ...request, width: 9, lengthPenalty: 1 } };
    await expect(sampler.add(1, wide)).rejects.toThrow(/width 9/);
    expect(sampler.busy).toBe(false);
  });
});
