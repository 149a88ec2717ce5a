import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import type {
  Constraint,
  Engine,
  GenerateRequest,
  Generation,
  Weights,
} from '../../../src/engines/engine.ts';
import type { Datum, LossConfig } from '../../../src/learning/index.ts';

const baseModel = 'martingale-tiny';
const base: Weights = { baseModel, folder: null };
const cispo: LossConfig = {
  type: 'cispo',
  epsilon: 1,
  epsilonHigh: 4,
  maskRatio: false,
  maxRatio: null,
  tau: 0,
  precalculateLogprobs: false,
  entropyCoefficient: 0.01,
};

describe('the embedded engine', () => {
  let engine: Engine;
  let folder: string;
  let trained: Weights;

  const prompt = (text: string) => {
    const tokenizer = engine.tokenizer(baseModel);
    const special = (name: string) => tokenizer.special.get(name) as number;
    return [special('<|user|>'), ...tokenizer.encode(text), special('<|end|>'), special('<|assistant|>')];
  };
  const constraint = (): Constraint => ({
    branches: [
      { open: null, grammar: { type: 'regex', pattern: '(done|sorry), code [0-9]{2}' }, repeat: false },
      {
        open: engine.chatFormat(baseModel).callToken,
        grammar: {
          type: 'named_json',
          alternatives: ['refund', 'track'].map((name) => ({
            name,
            schema: {
              type: 'object',
              properties: { order: { type: 'string', pattern: '^\\d{4}$' } },
              required: ['order'],
              additionalProperties: false,
            },
          })),
        },
        repeat: false,
      },
    ],
  });
  const request = (text: string, seed: number, more: Partial<GenerateRequest> = {}): GenerateRequest => ({
    weights: trained,
    prompt: prompt(text),
    sampling: { temperature: 1, topP: 1, topK: 0, minP: 0 },
    seed,
    maxTokens: 60,
    stopStrings: [],
    stopTokens: [],
    constraint: constraint(),
    topLogprobs: 0,
    ...more,
  });
  const datumOf = (
    asked: GenerateRequest,
    { tokens, logprobs }: Generation,
    advantage: number,
  ): Datum<Constraint> => ({
    tokens: [...asked.prompt, ...tokens],
    spans: [
      {
        start: asked.prompt.length,
        length: tokens.length,
        logprobs,
        sampling: asked.sampling,
        constraint: asked.constraint,
        advantage,
        weight: 0.01,
      },
    ],
  });
  const train = async (
    from: Weights,
    name: string,
    datums: Datum<Constraint>[],
    loss = cispo,
    learningRate = 1e-3,
  ) => {
    const to = { baseModel, folder: join(folder, name) };
    let metrics: Record<string, number> = {};
    await engine.train({
      from,
      folder: to.folder,
      batches: [{ datums, loss, learningRate }],
      onStep: (step) => {
        metrics = step;
      },
    });
    return { to, metrics };
  };

  beforeAll(async () => {
    engine = await createEmbeddedEngine({ threads: 1 });
    folder = await mkdtemp(join(tmpdir(), 'martingale-engine-'));
    trained = base;
    const texts = ['refund order 4821', 'where is order 17', 'hello'];
    for (let round = 0; round < 3; round++) {
      const asked = texts.flatMap((text, index) => [request(text, index), request(text, index + 100)]);
      const datums = await Promise.all(
        asked.map(async (one, index) => datumOf(one, await engine.generate(one), index % 2 ? 1 : -1)),
      );
      trained = (await train(trained, `warm-${round}`, datums, cispo, 1e-2)).to;
    }
  });

  afterAll(async () => {
    await engine.close();
    await rm(folder, { recursive: true });
  });

  it('trains on the log-probabilities it sampled with (1e-4), under masks, temperature and cut-offs', async () => {
    const samplings = [
      { temperature: 1, topP: 1, topK: 0, minP: 0 },
      { temperature: 0.6, topP: 1, topK: 0, minP: 0 },
      { temperature: 1.3, topP: 0.9, topK: 7, minP: 0.02 },
    ];
    const asked = samplings.flatMap((sampling, index) => [
      request('please refund order 1234', index, { sampling }),
      request('tell me', index, { sampling, constraint: null, maxTokens: 30 }),
    ]);
    const datums = await Promise.all(
      asked.map(async (one, index) => datumOf(one, await engine.generate(one), index % 2 ? 1 : -1)),
    );
    const { metrics } = await train(trained, 'agreement', datums);
    expect(metrics.num_decisions).toBeGreaterThan(60);
    expect(metrics.logprob_difference_max).toBeGreaterThan(0);
    expect(metrics.logprob_difference_max).toBeLessThan(1e-4);
  });

  it('gives the same tokens and log-probabilities for a seed, alone and among a hundred others', async () => {
    const one = request('cancel order 7777', 42);
    const alone = await engine.generate(one);
    const crowd = Array.from({ length: 100 }, (_, index) =>
      engine.generate(request(`${'more '.repeat(index % 9)}order ${index}`, index)),
    );
    const among = await engine.generate(one);
    await Promise.all(crowd);
    expect(among.tokens).toEqual(alone.tokens);
    expect(among.logprobs).toEqual(alone.logprobs);
  });

  it('trains to the same bits from the same data, also after a restart', async () => {
    const asked = Array.from({ length: 6 }, (_, index) => request('track order 4', index));
    const datums = await Promise.all(
      asked.map(async (one, index) => datumOf(one, await engine.generate(one), index - 3)),
    );
    const first = await train(trained, 'again-1', datums);
    const second = await createEmbeddedEngine({ threads: 1 });
    try {
      const other = join(folder, 'again-2');
      await second.train({
        from: trained,
        folder: other,
        batches: [{ datums, loss: cispo, learningRate: 1e-3 }],
        onStep: () => undefined,
      });
      const one = request('track order 4', 9);
      const left = await engine.generate({ ...one, weights: first.to });
      const right = await second.generate({ ...one, weights: { baseModel, folder: other } });
      expect(right.logprobs).toEqual(left.logprobs);
      expect(left.logprobs).not.toEqual((await engine.generate(one)).logprobs);
    } finally {
      await second.close();
    }
  });

  it('trains to the same bits on two threads as on one', async () => {
    const asked = Array.from({ length: 64 }, (_, index) => request(`track order ${index}`, index));
    const datums = await Promise.all(
      asked.map(async (one, index) => datumOf(one, await engine.generate(one), (index % 5) - 2)),
    );
    const one = (await train(trained, 'threads-1', datums)).to;
    const wide = await createEmbeddedEngine({ threads: 2 });
    try {
      const folderOfTwo = join(folder, 'threads-2');
      await wide.train({
        from: trained,
        folder: folderOfTwo,
        batches: [{ datums, loss: cispo, learningRate: 1e-3 }],
        onStep: () => undefined,
      });
      const read = (path: string) => readFile(join(path, 'model.safetensors'));
      expect((await read(folderOfTwo)).equals(await read(one.folder ?? ''))).toBe(true);
    } finally {
      await wide.close();
    }
  });

  it('writes only what its constraint allows, and says what was forced with log-probability 0', async () => {
    const tokenizer = engine.tokenizer(baseModel);
    const { callToken, endToken } = engine.chatFormat(baseModel);
    for (let seed = 0; seed < 20; seed++) {
      const { tokens, logprobs, finishReason } = await engine.generate(request('hello', seed));
      expect(finishReason).toBe('stop');
      expect(tokens.at(-1)).toBe(endToken);
      const text = tokenizer.decode(tokens);
      if (tokens[0] === callToken) expect(text).toMatch(/^(refund|track)\{"order":"\d{4}"\}$/);
      else expect(text).toMatch(/^(done|sorry), code \d\d$/);
      expect(logprobs.some((logprob) => logprob === 0)).toBe(true);
    }
  });

  it('stops at a stop string that spans tokens, at a stop token and at the token limit', async () => {
    const letters: Constraint = {
      branches: [{ open: null, grammar: { type: 'regex', pattern: '[a-z]{60}' }, repeat: false }],
    };
    const free = request('hello', 3, { constraint: letters });
    const tokenizer = engine.tokenizer(baseModel);
    const whole = await engine.generate(free);
    const stop = tokenizer.decode(whole.tokens.slice(3, 6));
    const cut = await engine.generate({ ...free, stopStrings: [stop] });
    expect(cut).toMatchObject({ finishReason: 'stop', stop });
    expect(cut.tokens).toEqual(whole.tokens.slice(0, 6));
    const token = whole.tokens[4] as number;
    const stopped = await engine.generate({ ...free, stopTokens: [token] });
    expect(stopped).toMatchObject({ finishReason: 'stop', stop: token });
    expect((await engine.generate({ ...free, maxTokens: 5 })).finishReason).toBe('length');
  });

  it('streams the tokens it returns', async () => {
    const streamed: number[] = [];
    const { tokens } = await engine.generate(request('hello', 5), (delta) => streamed.push(...delta.tokens));
    expect(streamed).toEqual(tokens);
  });

  it('computes a shared prompt once, but for what fills no whole block', async () => {
    const text = 'a long enough prompt about order 99 that nobody has asked before, and then some';
    const group = await Promise.all(
      Array.from({ length: 8 }, (_, seed) => engine.generate(request(text, seed))),
    );
    const cached = group.map(({ cachedTokens }) => cachedTokens).sort((a, b) => a - b);
    expect(cached.slice(1).every((tokens) => tokens >= prompt(text).length - 16)).toBe(true);
  });

  it('leaves a batch when its signal is aborted', async () => {
    const stop = new AbortController();
    const running = engine.generate(
      request('hello', 6, { constraint: null, maxTokens: 400, signal: stop.signal }),
      () => stop.abort(new Error('enough')),
    );
    await expect(running).rejects.toThrow('enough');
    await expect(engine.generate(request('hello', 7))).resolves.toBeDefined();
  });

  it('makes no checkpoint of a job that is aborted or fails', async () => {
    const one = request('hello', 8);
    const datum = datumOf(one, await engine.generate(one), 1);
    const stop = new AbortController();
    const target = join(folder, 'aborted');
    const running = engine.train({
      from: trained,
      folder: target,
      batches: [1, 2, 3].map(() => ({ datums: [datum], loss: cispo, learningRate: 1e-3 })),
      onStep: () => stop.abort(new Error('stopped')),
      signal: stop.signal,
    });
    await expect(running).rejects.toThrow('stopped');
    const wrong = {
      ...datum,
      tokens: datum.tokens.map((token, at) => (at === one.prompt.length ? 65 : token)),
    };
    await expect(train(trained, 'wrong', [wrong])).rejects.toThrow(/constraint allows/);
    expect((await readdir(folder)).filter((name) => /aborted|wrong/.test(name))).toEqual([]);
  });

  it('samples from many checkpoints at once, also while others are dropped', async () => {
    const one = request('hello', 11);
    const datum = datumOf(one, await engine.generate(one), 1);
    const checkpoints: Weights[] = [];
    for (let index = 0; index < 6; index++)
      checkpoints.push((await train(trained, `many-${index}`, [datum], cispo, 1e-3 * (index + 1))).to);
    const expected = new Map<Weights, number[]>();
    for (const weights of checkpoints)
      expected.set(weights, (await engine.generate({ ...one, weights })).logprobs);
    const replies: Promise<void>[] = [];
    for (let round = 0; round < 5; round++)
      for (const weights of checkpoints) {
        replies.push(
          engine
            .generate({ ...one, weights })
            .then(({ logprobs }) => expect(logprobs).toEqual(expected.get(weights))),
        );
        replies.push(engine.drop(checkpoints[round] as Weights));
      }
    await Promise.all(replies);
    expect(new Set([...expected.values()].map(String)).size).toBe(6);
  });

  it('refuses what it does not have by name', async () => {
    await expect(
      engine.generate(request('x', 1, { weights: { baseModel: 'gpt', folder: null } })),
    ).rejects.toThrow(/no base model gpt.*martingale-tiny/);
    await expect(
      engine.generate(request('x', 1, { weights: { baseModel, folder: '/nowhere' } })),
    ).rejects.toThrow('/nowhere');
    await expect(engine.generate({ ...request('x', 1), prompt: [] })).rejects.toThrow(/1 to 511 tokens/);
    await expect(createEmbeddedEngine({ threads: 0 })).rejects.toThrow(/threads.*0/);
  });
});
