import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import { WorkerThread } from '../../../src/engines/embedded/threads/worker-thread.ts';
import type { GenerateRequest, Generation, Weights } from '../../../src/engines/engine.ts';
import type { Constraint } from '../../../src/language/grammar/constraint.ts';
import { temporaryFolder } from '../../support/files.ts';
import { generateCheckpoint } from './checkpoint/generated.ts';
import { Bench, base, baseModel, batchOf, datumOf } from './support.ts';

async function* noBatches() {}

describe('the embedded engine', () => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await Bench.open();
    await bench.warmUp();
  });

  afterAll(() => bench.close());

  it('gives the same tokens and log-probabilities for a seed, alone and among a hundred others', async () => {
    const one = bench.request('cancel order 7777', 42);
    const alone = await bench.engine.generate(one);
    const crowd = bench.generate(
      Array.from({ length: 100 }, (_, index) =>
        bench.request(`${'more '.repeat(index % 9)}order ${index}`, index),
      ),
    );
    const among = await bench.engine.generate(one);
    await crowd;
    expect(among.tokens).toEqual(alone.tokens);
    expect(among.logprobs).toEqual(alone.logprobs);
  });

  it('writes only what its constraint allows, with log-probability 0 for forced tokens', async () => {
    const tokenizer = bench.engine.tokenizer(baseModel);
    const { endToken } = bench.engine.chatFormat(baseModel);
    for (let seed = 0; seed < 20; seed++) {
      const { tokens, logprobs, finishReason } = await bench.engine.generate(bench.request('hello', seed));
      expect(finishReason).toBe('stop');
      expect(tokens.at(-1)).toBe(endToken);
      const text = tokenizer.decode(tokens);
      expect(text).toMatch(
        /^((done|sorry), code \d\d|<tool_call>(refund|track)\{"order":"\d{4}"\}<\/tool_call>)$/,
      );
      expect(logprobs.some((logprob) => logprob === 0)).toBe(true);
    }
  });

  it('stops at a stop string that spans tokens, at a stop token and at the token limit', async () => {
    const letters: Constraint = {
      grammar: { type: 'regex', pattern: '[a-z]{60}' },
    };
    const free = bench.request('hello', 3, { constraint: letters });
    const tokenizer = bench.engine.tokenizer(baseModel);
    const whole = await bench.engine.generate(free);
    const stop = tokenizer.decode(whole.tokens.slice(3, 6));
    const cut = await bench.engine.generate({ ...free, stopStrings: [stop] });
    expect(cut).toMatchObject({ finishReason: 'stop', stop });
    expect(cut.tokens).toEqual(whole.tokens.slice(0, 6));
    const token = whole.tokens[4] as number;
    const stopped = await bench.engine.generate({ ...free, stopTokens: [token] });
    expect(stopped).toMatchObject({ finishReason: 'stop', stop: token });
    expect((await bench.engine.generate({ ...free, maxTokens: 5 })).finishReason).toBe('length');
  });

  it('streams the tokens it returns', async () => {
    const streamed: number[] = [];
    const { tokens } = await bench.engine.generate(bench.request('hello', 5), (delta) =>
      streamed.push(...delta.tokens),
    );
    expect(streamed).toEqual(tokens);
  });

  it('computes a shared prompt once, except for its last incomplete block', async () => {
    const text = 'a long enough prompt about order 99 that nobody has asked before, and then some';
    const group = await bench.generate(Array.from({ length: 8 }, (_, seed) => bench.request(text, seed)));
    const cached = group.map(({ cachedTokens }) => cachedTokens).sort((a, b) => a - b);
    expect(cached.slice(1).every((tokens) => tokens >= bench.prompt(text).length - 16)).toBe(true);
  });

  it('samples on all its threads, with the same replies, and a conversation stays where its prefix is', async () => {
    const call = vi.spyOn(WorkerThread.prototype, 'call');
    onTestFinished(() => call.mockRestore());
    const threads = () => new Set(call.mock.contexts).size;
    const several = await Bench.open({ samplerThreads: 2 });
    onTestFinished(() => several.close());
    const crowd = Array.from({ length: 24 }, (_, index) =>
      several.request(`order ${index} came late, and ${'again '.repeat(index)}late`, index),
    );
    await several.generate(crowd);
    await expect.poll(async () => (await several.generate(crowd)) && threads()).toBe(2);
    const first = await several.generate(crowd);
    expect(first.map(({ tokens, logprobs }) => ({ tokens, logprobs }))).toEqual(
      (await bench.generate(crowd)).map(({ tokens, logprobs }) => ({ tokens, logprobs })),
    );
    // The other engine has one thread: `threads` bounds sampling too.
    await bench.generate(crowd);
    expect(threads()).toBe(3);
    const later = crowd.map(({ prompt, ...rest }, index) => ({
      ...rest,
      prompt: [...prompt, ...(first[index] as Generation).tokens, ...several.prompt('and now?')],
    }));
    for (const [index, { cachedTokens }] of (await several.generate(later)).entries())
      expect(cachedTokens).toBeGreaterThan((crowd[index] as GenerateRequest).prompt.length - 16);
  });

  it('encodes replies while it trains, and stops waiting for them when asked to', async () => {
    const asked = { ...bench.request('order 5', 1), constraint: null };
    const datum = datumOf(asked, await bench.engine.generate(asked), 1);
    const batch = batchOf(Array.from({ length: 150 }, () => datum));
    const replies = [{ parts: ['order 5'], constraint: null }];
    const happened: string[] = [];
    let isTraining = true;
    const training = bench.engine.train({
      from: base,
      folder: join(bench.folder, 'beside'),
      batches: (async function* () {
        yield batch;
      })(),
      onStep: () => {
        isTraining = false;
        happened.push('step');
      },
    });
    while (isTraining) {
      const [tokens] = await bench.engine.encodeReplies(baseModel, replies);
      expect(bench.engine.tokenizer(baseModel).decode(tokens ?? [])).toBe('order 5');
      happened.push('encoded');
    }
    await training;
    expect(happened.indexOf('step')).toBeGreaterThan(5);
    const stop = new AbortController();
    const encoding = bench.engine.encodeReplies(baseModel, replies, { signal: stop.signal });
    stop.abort(new Error('enough'));
    await expect(encoding).rejects.toThrow('enough');
  });

  it('starts only threads that have work, and the others when they have', async () => {
    let threads = 0;
    const count = () => threads++;
    process.on('worker', count);
    onTestFinished(() => void process.off('worker', count));
    const tiny = await createEmbeddedEngine({ threads: 1 });
    expect(threads).toBe(1);
    await tiny.encodeReplies(baseModel, []);
    expect(threads).toBe(1);
    const trained = join(await temporaryFolder(), 'trained');
    await tiny.train({ from: base, folder: trained, batches: noBatches(), onStep: () => {} });
    expect(threads).toBe(2);
    await tiny.close();
    const folder = await generateCheckpoint(await temporaryFolder(), 'qwen3');
    const beside = await createEmbeddedEngine({ threads: 1, checkpoints: [{ folder }] });
    // One samples from the checkpoint, another one has tested its graphs.
    expect(threads).toBe(4);
    const one = { ...bench.request('order 1', 3), constraint: null };
    const replies = await Promise.all([beside.generate(one), beside.generate(one)]);
    expect(threads).toBe(5);
    expect(replies.map(({ tokens }) => tokens)).toEqual(
      Array(2).fill((await bench.engine.generate(one)).tokens),
    );
    await beside.close();
  });

  it('removes a reply from its batch when its signal aborts', async () => {
    const stop = new AbortController();
    const running = bench.engine.generate(
      bench.request('hello', 6, { constraint: null, maxTokens: 400, signal: stop.signal }),
      () => stop.abort(new Error('enough')),
    );
    await expect(running).rejects.toThrow('enough');
    await expect(bench.engine.generate(bench.request('hello', 7))).resolves.toBeDefined();
  });

  it('samples from many checkpoints at once, also while others are dropped', async () => {
    const one = bench.request('hello', 11);
    const datums = await bench.sample([one], () => 1);
    const checkpoints: Weights[] = [];
    for (let index = 0; index < 6; index++)
      checkpoints.push((await bench.train(bench.weights, `many-${index}`, datums, 1e-3 * (index + 1))).to);
    const expected = new Map<Weights, number[]>();
    for (const weights of checkpoints)
      expected.set(weights, (await bench.engine.generate({ ...one, weights })).logprobs);
    const replies: Promise<void>[] = [];
    for (let round = 0; round < 5; round++)
      for (const weights of checkpoints) {
        replies.push(
          bench.engine
            .generate({ ...one, weights })
            .then(({ logprobs }) => expect(logprobs).toEqual(expected.get(weights))),
        );
        replies.push(bench.engine.drop(checkpoints[round] as Weights));
      }
    await Promise.all(replies);
    expect(new Set([...expected.values()].map(String)).size).toBe(6);
  });

  it('samples from what was trained last in a folder: a job that failed at its end runs again', async () => {
    const one = bench.request('hello', 11);
    const datums = await bench.sample([one], () => 1);
    const { to: first } = await bench.train(bench.weights, 'again', datums, 1e-3);
    await bench.engine.generate({ ...one, weights: first });
    await rm(first.folder, { recursive: true });
    const { to: again } = await bench.train(bench.weights, 'again', datums, 1e-2);
    const { to: elsewhere } = await bench.train(bench.weights, 'elsewhere', datums, 1e-2);
    expect(again).toEqual(first);
    const [own, expected] = await Promise.all(
      [again, elsewhere].map((weights) => bench.engine.generate({ ...one, weights })),
    );
    expect(own).toEqual(expected);
  });

  it('keeps nothing of a dropped checkpoint for training', async () => {
    const datums = await bench.sample([bench.request('hello', 11)], () => 1);
    const { to } = await bench.train(bench.weights, 'dropped', datums);
    await bench.engine.drop(to);
    await rm(to.folder, { recursive: true });
    await expect(bench.train(to, 'after', datums)).rejects.toThrow(to.folder);
  });

  it('names Unknown base models, missing weights and invalid options', async () => {
    const { engine } = bench;
    await expect(
      engine.generate(bench.request('x', 1, { weights: { baseModel: 'gpt', folder: null } })),
    ).rejects.toThrow(/Unknown base model gpt. Known: martingale-tiny/);
    await expect(
      engine.generate(bench.request('x', 1, { weights: { baseModel, folder: '/nowhere' } })),
    ).rejects.toThrow('/nowhere');
    await expect(engine.generate({ ...bench.request('x', 1), prompt: [] })).rejects.toThrow(
      /1 to 511 tokens/,
    );
    await expect(createEmbeddedEngine({ threads: 0 })).rejects.toThrow(/threads.*0/);
    await expect(createEmbeddedEngine({ threads: 100_000 })).rejects.toThrow(
      '`threads` is 100000. Pass at most 256.',
    );
  });
});
