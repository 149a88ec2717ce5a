import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rlConfigSchema } from '../../../../src/contract/index.ts';
import { BaseModels } from '../../../../src/engines/embedded/base-models.ts';
import type { Runtime, Session } from '../../../../src/engines/embedded/runtime.ts';
import type { TrainingBatch } from '../../../../src/engines/engine.ts';
import type { Constraint } from '../../../../src/language/grammar/constraint.ts';
import { type Datum, plainSampling, resolveRlConfig } from '../../../../src/learning/index.ts';
import { sharedFolder } from '../../../support/files.ts';
import { codec, runtime } from '../sampler/support.ts';
import { Bench, base, batchOf, openTrainer } from '../support.ts';

const length = 400;
const tokens = Array.from({ length }, (_, index) => 20 + ((index * 7) % 200));
const span = { start: 1, length: length - 1, sampling: plainSampling, constraint: null, weight: 0.01 };
const logprobs = Array.from({ length: length - 1 }, () => -5);
const datum: Datum<Constraint> = { tokens, spans: [{ ...span, logprobs, advantage: 1 }] };
/** Two of them run together, so this is ten runs of each graph. */
const batch = batchOf(Array.from({ length: 20 }, () => datum));
const { loss } = resolveRlConfig(rlConfigSchema.parse({ kl_penalty_coef: 0.1 }), { learningRate: 1e-3 });
const penalized: TrainingBatch = { ...batch, loss, reference: base };

/** A trainer, the sessions that live, and how many runs they have made. */
function open(onRun: (runs: number) => void = () => {}) {
  const live = new Set<Session>();
  const counts = { runs: 0, made: 0 };
  const watched: Runtime = {
    ...runtime,
    session: async (model) => {
      const session = await runtime.session(model);
      const seen = new Proxy(session, {
        get: (target, key) => {
          if (key === 'run') onRun(++counts.runs);
          if (key === 'release') live.delete(seen);
          const value: unknown = Reflect.get(target, key);
          return typeof value === 'function' ? value.bind(target) : value;
        },
      });
      live.add(seen);
      counts.made++;
      return seen;
    },
  };
  return {
    trainer: openTrainer(watched, { models: new BaseModels([]), codecOf: () => codec }),
    live,
    counts,
  };
}

describe('a cancelled training', () => {
  const folder = sharedFolder();
  /** The checkpoint of one step that nothing came before. */
  let expected: Buffer;

  const weightsIn = (name: string) => readFile(join(folder, name, 'model.safetensors'));

  beforeAll(async () => {
    const { trainer } = open();
    await trainer.begin(base);
    await trainer.step(batchOf([datum]));
    await trainer.save(join(folder, 'expected'));
    await trainer.close();
    expected = await weightsIn('expected');
  });

  it.each([
    { where: 'in the gradient', asked: batch, at: 3, sessions: 10 },
    { where: 'under the reference of a KL penalty', asked: penalized, at: 2, sessions: 12 },
  ])('ends within a run $where, and the next one begins clean', async ({ where, asked, at, sessions }) => {
    const { trainer, live, counts } = open((runs) => {
      if (runs === at) trainer.cancel();
    });
    await trainer.begin(base);
    await expect(trainer.step(asked)).rejects.toMatchObject({ code: 'training_cancelled' });
    // The backward pass of what has run forward may come yet.
    expect(counts.runs).toBeLessThanOrEqual(at + 1);
    await expect(trainer.step(asked)).rejects.toMatchObject({ code: 'training_cancelled' });
    expect(counts.runs).toBeLessThanOrEqual(at + 1);
    trainer.abandon();
    await expect(trainer.save(join(folder, 'never'))).rejects.toMatchObject({ code: 'no_training_run' });
    expect(existsSync(join(folder, 'never'))).toBe(false);

    await trainer.begin(base);
    await trainer.step(batchOf([datum]));
    await trainer.save(join(folder, where));
    expect((await weightsIn(where)).equals(expected)).toBe(true);
    // The head's, and those of a layer and of the last layer that were needed.
    expect(counts.made).toBe(sessions);
    await trainer.close();
    expect(live.size).toBe(0);
  });

  it('ends while its decisions are searched, however many datums follow', async () => {
    let prepared = 0;
    const trainer = openTrainer(runtime, {
      models: new BaseModels([]),
      codecOf: () => ({
        compiler: codec.compiler,
        prepareSampling(parameters) {
          if (++prepared === 2) trainer.cancel();
          return codec.prepareSampling(parameters);
        },
      }),
    });
    await trainer.begin(base);
    await expect(trainer.step(batch)).rejects.toMatchObject({ code: 'training_cancelled' });
    expect(prepared).toBe(2);
    await trainer.close();
  });

  it('continues from the last checkpoint as it was saved', async () => {
    // The first step makes six runs.
    const { trainer } = open((runs) => {
      if (runs === 9) trainer.cancel();
    });
    const from = { ...base, folder: join(folder, 'second') };
    await trainer.begin(base);
    await trainer.step(batchOf([datum]));
    await trainer.save(from.folder);
    // Out of memory the first time, and from the folder after that.
    await trainer.begin(from);
    await expect(trainer.step(batch)).rejects.toMatchObject({ code: 'training_cancelled' });
    trainer.abandon();
    await trainer.begin(from);
    await trainer.save(join(folder, 'third'));
    expect((await weightsIn('third')).equals(expected)).toBe(true);
    await trainer.close();
  });
});

describe.each([1, 2])('a training job whose signal aborts, on %i threads', (threads) => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await Bench.open({ threads });
  });

  afterAll(() => bench.close());

  it('ends in the middle of a step without a trace, and does not affect the next one', async () => {
    const stop = new AbortController();
    const job = bench.engine.train({
      from: base,
      folder: join(bench.folder, 'aborted'),
      batches: (function* () {
        // Follows the batch to the thread.
        setImmediate(() => stop.abort(new Error('stopped')));
        yield { ...penalized, datums: Array.from({ length: 20 }, () => datum) };
      })(),
      onStep: () => undefined,
      signal: stop.signal,
    });
    await expect(job).rejects.toThrow('stopped');
    expect(await readdir(bench.folder)).toEqual([]);
    const first = await bench.train(base, 'first', [datum]);
    const fresh = await Bench.open();
    try {
      const second = await fresh.train(base, 'second', [datum]);
      const read = ({ to }: typeof first) => readFile(join(to.folder, 'model.safetensors'));
      expect((await read(first)).equals(await read(second))).toBe(true);
    } finally {
      await fresh.close();
    }
  });

  it('waits while another job trains, and can be cancelled then', async () => {
    const begun = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const first = bench.engine.train({
      from: base,
      folder: join(bench.folder, 'long'),
      batches: (async function* () {
        begun.resolve();
        await release.promise;
        yield batchOf([datum]);
      })(),
      onStep: () => undefined,
    });
    await begun.promise;
    const behind = bench.train(base, 'behind', [datum]);
    const stop = new AbortController();
    const cancelled = bench.engine.train({
      from: base,
      folder: join(bench.folder, 'cancelled'),
      batches: [batchOf([datum])],
      onStep: () => undefined,
      signal: stop.signal,
    });
    stop.abort(new Error('stopped'));
    await expect(cancelled).rejects.toThrow('stopped');
    release.resolve();
    await first;
    await behind;
    const names = await readdir(bench.folder);
    expect(names.filter((name) => /long|behind|cancelled|aborted|unfinished/.test(name))).toEqual([
      'behind',
      'long',
    ]);
  });
});
