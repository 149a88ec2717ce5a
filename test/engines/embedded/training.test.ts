import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rlConfigSchema } from '../../../src/contract/index.ts';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import type { Constraint } from '../../../src/language/grammar/constraint.ts';
import { type Datum, resolveRlConfig } from '../../../src/learning/index.ts';
import { Bench, base, baseModel, batchOf } from './support.ts';

describe('training by the embedded engine', () => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await Bench.open();
    await bench.warmUp();
  });

  afterAll(() => bench.close());

  it('gives the same bits for the same data, also after a restart', async () => {
    const asked = Array.from({ length: 6 }, (_, index) => bench.request('track order 4', index));
    const datums = await bench.sample(asked, (index) => index - 3);
    const first = await bench.train(bench.weights, 'again-1', datums);
    const second = await createEmbeddedEngine({ threads: 1 });
    try {
      const folder = join(bench.folder, 'again-2');
      await second.train({
        from: bench.weights,
        folder,
        batches: [batchOf(datums)],
        onStep: () => undefined,
      });
      const one = bench.request('track order 4', 9);
      const left = await bench.engine.generate({ ...one, weights: first.to });
      const right = await second.generate({ ...one, weights: { baseModel, folder } });
      expect(right.logprobs).toEqual(left.logprobs);
      expect(left.logprobs).not.toEqual((await bench.engine.generate(one)).logprobs);
    } finally {
      await second.close();
    }
  });

  const sameBitsOn = async (options: {
    runtime: 'onnxruntime-node' | 'onnxruntime-web';
    threads: number;
  }) => {
    const isWeb = options.runtime === 'onnxruntime-web';
    // The web runtime is slow.
    const asked = Array.from({ length: isWeb ? 16 : 64 }, (_, index) =>
      bench.request(`track order ${index}`, index),
    );
    const datums = await bench.sample(asked, (index) => (index % 5) - 2);
    const { loss } = resolveRlConfig(rlConfigSchema.parse({ kl_penalty_coef: 0.1 }), { learningRate: 1e-3 });
    const withReference = { ...batchOf(datums), loss, reference: base };
    const batches = isWeb ? [withReference] : [batchOf(datums), withReference];
    const train = async (threads: number) => {
      const engine = await createEmbeddedEngine({ ...options, threads, samplerThreads: 1 });
      const folder = join(bench.folder, `${options.runtime}-${options.threads}-${threads}`);
      const reported: Record<string, number>[] = [];
      try {
        await engine.train({
          ...{ from: bench.weights, folder, batches },
          onStep: ({ tokens_per_second, ...metrics }) => reported.push(metrics),
        });
      } finally {
        await engine.close();
      }
      return { reported, weights: await readFile(join(folder, 'model.safetensors')) };
    };
    const one = await train(1);
    const several = await train(options.threads);
    expect(several.reported).toEqual(one.reported);
    expect(several.weights.equals(one.weights)).toBe(true);
  };

  it.each([
    { runtime: 'onnxruntime-node', threads: 2 },
    { runtime: 'onnxruntime-web', threads: 2 },
  ] as const)('gives the same bits on $threads threads of $runtime as on one', sameBitsOn);

  it('gives the same bits on 3 threads of onnxruntime-node as on one', { tags: ['long'] }, () =>
    sameBitsOn({ runtime: 'onnxruntime-node', threads: 3 }),
  );

  it('makes no checkpoint of a job that is aborted or fails', async () => {
    const one = bench.request('hello', 8);
    const [datum] = (await bench.sample([one], () => 1)) as [Datum<Constraint>];
    const stop = new AbortController();
    const running = bench.engine.train({
      from: bench.weights,
      folder: join(bench.folder, 'aborted'),
      batches: [1, 2, 3].map(() => batchOf([datum])),
      onStep: () => stop.abort(new Error('stopped')),
      signal: stop.signal,
    });
    await expect(running).rejects.toThrow('stopped');
    const wrong = {
      ...datum,
      tokens: datum.tokens.map((token, at) => (at === one.prompt.length ? 65 : token)),
    };
    await expect(bench.train(bench.weights, 'wrong', [wrong])).rejects.toThrow(
      /not allowed by its constraint/,
    );
    expect((await readdir(bench.folder)).filter((name) => /aborted|wrong/.test(name))).toEqual([]);
  });
});
