import { getEventListeners } from 'node:events';
import { writeFileSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { queryObjects } from 'node:v8';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { GenerateRequest, Generation } from '../../../src/engines/engine.ts';
import { EngineError } from '../../../src/engines/engine.ts';
import { type ProcessorCall, plainSampling } from '../../../src/learning/index.ts';
import { temporaryFolder } from '../../support/files.ts';
import { Bench, base } from './support.ts';

const moduleOf = (name: string) => new URL(`./modules/${name}.ts`, import.meta.url);

describe('a request to the embedded engine', () => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await Bench.open({
      logitsProcessors: { 'test.Lockstep': moduleOf('lockstep'), 'test.Crash': moduleOf('crash') },
    });
  });

  afterAll(() => bench.close());

  const endless = (processor: Partial<ProcessorCall>, more: Partial<GenerateRequest> = {}) =>
    bench.request('hello', 3, {
      constraint: null,
      maxTokens: 40,
      sampling: {
        ...plainSampling,
        ignoreEnd: true,
        processors: [{ name: 'test.Lockstep', args: [], kwargs: {}, extra: {}, ...processor }],
      },
      ...more,
    });

  it('is computed no further than the end of the current step once it is aborted', async () => {
    const folder = await temporaryFolder();
    const stop = new AbortController();
    const sampling = (name: string, more = {}) => ({ kwargs: { folder, name, ...more } });
    const aborted = bench.engine.generate(
      endless(sampling('aborted'), { signal: stop.signal, maxTokens: 400 }),
    );
    const ended = expect(aborted).rejects.toThrow('enough');
    // The first delta is sent at once. The thread may be at the tenth token before it would send another.
    const { tokens } = await bench.engine.generate(endless(sampling('neighbour', { holdAt: 9 })), () => {
      if (stop.signal.aborted) return;
      stop.abort(new Error('enough'));
      // The cancellation is on its way by then.
      setImmediate(() => writeFileSync(join(folder, 'go'), ''));
    });
    await ended;
    expect(tokens).toHaveLength(40);
    const sampled = (await readFile(join(folder, 'sampled'), 'utf8')).trim().split('\n');
    // The neighbour's tenth token is sampled in the step that the cancellation finds in progress, or after it.
    const tenth = sampled.flatMap((name, at) => (name === 'neighbour' ? [at] : []))[9] ?? 0;
    const later = sampled.slice(tenth + 1).filter((name) => name === 'aborted');
    expect(later.length).toBeLessThanOrEqual(1);
    expect(sampled.filter((name) => name === 'aborted').length).toBeGreaterThan(0);
  });

  it('fails when the thread dies, like thirty others, and later ones run on a new thread', async () => {
    const others = Array.from({ length: 30 }, (_, seed) => bench.request('hello', seed, { maxTokens: 300 }));
    const crashing = endless({ name: 'test.Crash' }, { maxTokens: 300 });
    const ends = await Promise.allSettled(
      [crashing, ...others].map((request) => bench.engine.generate(request)),
    );
    const codes = ends.map((end) =>
      end.status === 'rejected' && EngineError.isInstance(end.reason) ? end.reason.code : end.status,
    );
    expect(codes[0]).toBe('worker_died');
    expect(codes.every((code) => code === 'worker_died' || code === 'fulfilled')).toBe(true);
    const after = await bench.generate(others);
    expect(after).toHaveLength(30);
  });

  it('fails if its weights are NaN, like thirty others, while requests of other weights continue', async () => {
    const [datum] = await bench.sample([bench.request('hello', 1)], () => 1);
    const { to: trained } = await bench.train(base, 'whole', datum ? [datum] : []);
    // A copy, because the engine loads what it has trained.
    const to = { ...trained, folder: join(await temporaryFolder(), 'broken') };
    await cp(trained.folder, to.folder, { recursive: true });
    const path = join(to.folder, 'model.safetensors');
    const file = await readFile(path);
    // Bytes of ones are a float that is no number.
    await writeFile(path, file.fill(0xff, 8 + Number(file.readBigUInt64LE())));
    const requests = Array.from({ length: 30 }, (_, seed) => bench.request('hello', seed));
    const good = bench.generate(requests);
    const broken = requests.map((request) => ({ ...request, weights: to }));
    const refusal = { code: 'bad_checkpoint', message: expect.stringContaining('logits are NaN') };
    for (let round = 0; round < 2; round++)
      await Promise.all([
        ...broken.map((request) => expect(bench.engine.generate(request)).rejects.toMatchObject(refusal)),
        expect(
          bench.engine.scorePrompt({ ...bench.request('x', 1, { weights: to }), top: 1 }),
        ).rejects.toMatchObject(refusal),
      ]);
    const tokensOf = (replies: Generation[]) => replies.map(({ tokens }) => tokens);
    expect(tokensOf(await good)).toEqual(tokensOf(await bench.generate(requests)));
  });

  it('fails alone if its listener throws, and is computed no further', async () => {
    const requests = Array.from({ length: 8 }, (_, seed) => bench.request('hello', seed));
    let heard = 0;
    const ends = await Promise.allSettled(
      requests.map((request, index) =>
        bench.engine.generate(request, () => {
          if (index !== 3) return;
          heard++;
          throw new Error('deaf');
        }),
      ),
    );
    expect(ends.map(({ status }) => status === 'fulfilled')).toEqual(requests.map((_, index) => index !== 3));
    expect(ends[3]).toMatchObject({ reason: { message: 'deaf' } });
    expect(heard).toBe(1);
  });

  it('is refused alone if its prompt has a token that the model does not have', async () => {
    const good = bench.generate([bench.request('hello', 1)]);
    for (const token of [512, -1, 0.5, Number.NaN]) {
      const prompt = [...bench.prompt('x'), token];
      const request = { ...bench.request('x', 1), prompt };
      const refusal = { code: 'bad_prompt', message: expect.stringMatching(/0 to 511/) };
      await expect(bench.engine.generate(request)).rejects.toMatchObject(refusal);
      const search = { ...request, width: 2, lengthPenalty: 1 };
      await expect(bench.engine.beamSearch(search)).rejects.toMatchObject(refusal);
      const score = { weights: base, prompt, top: 0 };
      await expect(bench.engine.scorePrompt(score)).rejects.toMatchObject(refusal);
    }
    expect(await good).toHaveLength(1);
  });

  it('leaves nothing in the engine, however it ends', { tags: ['long'] }, async () => {
    class Listener {
      heard = 0;
    }
    const stop = new AbortController();
    const { signal } = stop;
    const ask = async (index: number): Promise<void> => {
      const own = index % 7 === 0 ? AbortSignal.abort(new Error('never')) : signal;
      const listener = new Listener();
      const options = { signal: own, cacheSalt: `${index % 5}`, topLogprobs: index % 3, maxTokens: 12 };
      const request = bench.request(`order ${index}`, index, options);
      if (index % 4 === 1) await bench.engine.beamSearch({ ...request, width: 2, lengthPenalty: 1 });
      else if (index % 4 === 2) await bench.engine.scorePrompt({ ...request, top: 2 });
      else
        await bench.engine.generate(request, () => {
          listener.heard++;
          if (index % 11 === 0) throw new Error('deaf');
        });
    };
    let answered = 0;
    const count = () => {
      answered++;
    };
    // Their errors are not kept: they hold what they were thrown from.
    await Promise.all(Array.from({ length: 200 }, (_, index) => ask(index).then(count, () => undefined)));
    expect(answered).toBeGreaterThan(100);
    const late = Promise.all([3, 5, 6, 8].map((index) => expect(ask(index)).rejects.toThrow('enough')));
    stop.abort(new Error('enough'));
    await late;
    await new Promise(setImmediate);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    expect(queryObjects(Listener)).toBe(0);
  });
});
