import { describe, expect, test } from 'vitest';
import { datumLoss, type LossConfig, plainSampling } from '../../../src/learning/index.ts';
import { sharedFolder } from '../../support/files.ts';
import {
  baseModel,
  batch,
  datums,
  ppo,
  sampleFrom,
  serverOf,
  tinkerEngines,
  untrained,
  vocabularySize,
} from './support.ts';
import type { Fault, TinkerServer } from './tinker-server.ts';

const { open, trainOnce } = tinkerEngines(sharedFolder());

describe('a model on a training server', () => {
  test('is sampled from, with the log-probabilities of its own tokens', async () => {
    const server = await serverOf();
    const { tokens, logprobs, finishReason } = await sampleFrom(await open(server), untrained);
    expect(finishReason).toBe('length');
    expect(tokens).toHaveLength(5);
    const expected = tokens.map((token, at) => server.logprob(null, tokens[at - 1] ?? 7, token));
    for (const [at, logprob] of logprobs.entries()) expect(logprob).toBeCloseTo(expected[at] as number, 5);
  });

  test('ends a reply at a stop string, a stop token or its largest number of tokens', async () => {
    const server = await serverOf();
    const engine = await open(server);
    const { tokens } = await sampleFrom(engine, untrained, { maxTokens: 20 });
    const [, , third] = tokens as [number, number, number];
    const stopped = await sampleFrom(engine, untrained, { maxTokens: 20, stopTokens: [third] });
    const at = tokens.indexOf(third);
    expect(stopped).toMatchObject({ tokens: tokens.slice(0, at + 1), finishReason: 'stop', stop: third });
    const text = tokens
      .map((token) => engine.tokenizer(baseModel).decode([token]))
      .find((one) => /^[ -~]+$/.test(one));
    const cut = await sampleFrom(engine, untrained, { maxTokens: 20, stopStrings: [text as string] });
    expect(cut).toMatchObject({ finishReason: 'stop', stop: text });
    expect(engine.tokenizer(baseModel).decode(cut.tokens)).toContain(text as string);
    expect(await sampleFrom(engine, untrained, { maxTokens: 1 })).toMatchObject({
      finishReason: 'length',
      stop: null,
    });
  });

  test.each(['mean', 'sum'] as const)(
    'is trained with the gradient of our loss, by a server that takes the %s',
    async (reduction) => {
      const server = await serverOf({ reduction });
      const { metrics } = await trainOnce(await open(server), untrained, reduction);
      // The gradient by the bias of token j: w dL/dl ([j = token] - p_j), summed over the decisions.
      const expected = new Float64Array(vocabularySize);
      let loss = 0;
      for (const { tokens, spans } of datums) {
        const decisions = spans.flatMap((span) =>
          span.logprobs.map((sampledLogprob, index) => {
            const [previous, token] = tokens.slice(span.start + index - 1) as [number, number];
            return {
              previous,
              token,
              sampledLogprob,
              logprob: server.logprob(null, previous, token),
              ...span,
            };
          }),
        );
        const { losses, gradient } = datumLoss(decisions, ppo);
        for (const [at, { previous, token, weight }] of decisions.entries()) {
          loss += weight * (losses[at] as number);
          for (let id = 0; id < vocabularySize; id++) {
            const change = (id === token ? 1 : 0) - Math.exp(server.logprob(null, previous, id));
            expected[id] = (expected[id] as number) + weight * (gradient[at] as number) * change;
          }
        }
      }
      const squares = expected.reduce((sum, value) => sum + value * value, 0);
      expect(metrics[0]?.grad_norm).toBeCloseTo(Math.sqrt(squares), 5);
      expect(metrics[0]?.loss).toBeCloseTo(loss, 5);
      expect(metrics[0]?.num_decisions).toBe(4);
    },
  );

  test('continues from a checkpoint with its optimizer, and older checkpoints stay what they were', async () => {
    const server = await serverOf();
    const engine = await open(server);
    const both = await trainOnce(engine, untrained, 'both', [batch(), batch()]);
    const first = await trainOnce(engine, untrained, 'first');
    const sampled = await sampleFrom(engine, first.weights);
    const second = await trainOnce(engine, first.weights, 'second');
    expect(server.logprob(second.path, 7, 8)).toBe(server.logprob(both.path, 7, 8));
    expect(server.logprob(second.path, 7, 8)).not.toBe(server.logprob(first.path, 7, 8));
    // The server of this test fails a sample from an adapter that was trained.
    expect(await sampleFrom(engine, first.weights)).toEqual(sampled);
    await sampleFrom(engine, second.weights);
  });

  test('keeps close to the weights that a KL penalty names', async () => {
    const server = await serverOf();
    const engine = await open(server);
    const first = await trainOnce(engine, untrained, 'first');
    const loss: LossConfig = {
      ...ppo,
      klPenalty: { coefficient: 0.5, source: 'current_learner', isCentred: true },
    };
    const { metrics } = await trainOnce(engine, first.weights, 'kl', [batch({ loss, reference: untrained })]);
    const terms = datums.flatMap(({ tokens, spans }) =>
      spans.flatMap(({ start, logprobs }) =>
        logprobs.map((_, index) => {
          const [previous, token] = tokens.slice(start + index - 1) as [number, number];
          return server.logprob(first.path, previous, token) - server.logprob(null, previous, token);
        }),
      ),
    );
    const mean = terms.reduce((sum, value) => sum + value, 0) / terms.length;
    expect(metrics[0]?.kl_policy_ref).toBeCloseTo(mean, 5);
    // A checkpoint as teacher: the loss changes by what the mean was.
    const taught: LossConfig = {
      ...{ ...ppo, tau: 0 },
      klPenalty: { coefficient: 0.5, source: 'current_learner', isCentred: false },
    };
    const teach = (reference: typeof untrained) =>
      trainOnce(engine, first.weights, `by-${reference.folder === null}`, [
        batch({ loss: taught, reference }),
      ]);
    const byOther = await teach(untrained);
    expect(byOther.metrics[0]?.kl_policy_ref).toBeCloseTo(mean, 5);
    expect(byOther.metrics[0]?.loss).not.toBeCloseTo(metrics[0]?.loss as number, 4);
    const unrewarded = datums.map((datum) => ({
      ...datum,
      spans: datum.spans.map((span) => ({ ...span, advantage: 0 })),
    }));
    const byItself = await trainOnce(engine, first.weights, 'itself', [
      batch({ datums: unrewarded, loss: taught, reference: first.weights }),
    ]);
    expect(byItself.metrics[0]).toMatchObject({ kl_policy_ref: 0, grad_norm: 0 });
  });

  test('has at most as many adapters on the server as it may', async () => {
    const server = await serverOf();
    const engine = await open(server, { adapters: 3 });
    let most = 0;
    server.fault = () => {
      most = Math.max(most, server.openAdapters);
      return undefined;
    };
    let weights = untrained;
    const all = [weights];
    for (let step = 0; step < 4; step++) {
      ({ weights } = await trainOnce(engine, weights, `step${step}`));
      all.push(weights);
    }
    const replies = await Promise.all(all.map((one) => sampleFrom(engine, one)));
    expect(replies).toHaveLength(5);
    expect(most).toBeLessThanOrEqual(3);
  });
});

describe('what the server cannot do is refused by name', () => {
  test.each([
    ['temperature 0.5', { sampling: { ...plainSampling, temperature: 0.5 } }],
    ['top_p', { sampling: { ...plainSampling, topP: 0.9 } }],
    ['top_k', { sampling: { ...plainSampling, topK: 5 } }],
    ['min_p', { sampling: { ...plainSampling, minP: 0.1 } }],
    ['repetition_penalty', { sampling: { ...plainSampling, repetitionPenalty: 1.1 } }],
    ['logit_bias', { sampling: { ...plainSampling, logitBias: [[1, 2]] } }],
    ['bad_words', { sampling: { ...plainSampling, bannedTexts: ['no'] } }],
    ['top_logprobs', { topLogprobs: 1 }],
    ['response_format', { constraint: { branches: [] } }],
  ])('%s', async (name, options) => {
    const server = await serverOf();
    const engine = await open(server);
    const before = server.received.length;
    await expect(sampleFrom(engine, untrained, options)).rejects.toMatchObject({
      code: 'unsupported_option',
      message: expect.stringContaining(name),
    });
    expect(server.received).toHaveLength(before);
  });

  test('entropy_coef, in training', async () => {
    const engine = await open(await serverOf());
    const loss = { ...ppo, entropyCoefficient: 0.01 };
    await expect(trainOnce(engine, untrained, 'entropy', [batch({ loss })])).rejects.toMatchObject({
      message: expect.stringContaining('entropy_coefficient'),
    });
  });

  test('tokens outside the vocabulary, which would spoil the adapter', async () => {
    const engine = await open(await serverOf());
    const wrong = [{ ...(datums[1] as (typeof datums)[1]), tokens: [6, 736, 12] }];
    await expect(trainOnce(engine, untrained, 'id', [batch({ datums: wrong })])).rejects.toMatchObject({
      code: 'bad_datum',
    });
  });
});

describe('when things break', () => {
  const trainingCalls = [
    'create_model',
    'load_weights',
    'forward_backward',
    'optim_step',
    'save_weights',
    'retrieve_future',
  ];
  const faults: [Fault, 'before' | 'after'][] = [
    ['cut', 'before'],
    ['cut', 'after'],
    [500, 'after'],
    [503, 'before'],
  ];
  test.each(trainingCalls.flatMap((call) => faults.map(([fault, when]) => ({ call, fault, when }))))(
    'a job is trained once: $fault $when $call',
    { timeout: 60_000, tags: ['long'] },
    async ({ call, fault, when }) => {
      const server = await serverOf();
      const engine = await open(server);
      const first = await trainOnce(engine, untrained, 'first');
      const expected = await trainOnce(engine, first.weights, 'expected', [batch(), batch()]);
      let left = 1;
      server.fault = ({ path }, now) =>
        path.endsWith(call) && now === when && left-- > 0 ? fault : undefined;
      const { path, metrics } = await trainOnce(engine, first.weights, 'faulty', [batch(), batch()]);
      expect(left).toBeLessThanOrEqual(0);
      expect(metrics).toHaveLength(2);
      for (const token of [8, 9, 10])
        expect(server.logprob(path, 7, token)).toBe(server.logprob(expected.path, 7, token));
    },
  );

  test('a job survives restarts of the server, and older weights are loaded again', {
    timeout: 60_000,
  }, async () => {
    const server = await serverOf();
    const engine = await open(server);
    const first = await trainOnce(engine, untrained, 'first');
    const reply = await sampleFrom(engine, first.weights);
    const expected = await trainOnce(engine, first.weights, 'expected', [batch(), batch()]);
    let passes = 0;
    server.fault = ({ path }, when) => {
      if (when === 'before' && path.endsWith('forward_backward') && [2, 6].includes(++passes))
        server.restart();
      return undefined;
    };
    const { path } = await trainOnce(engine, first.weights, 'restarted', [batch(), batch()]);
    expect(passes).toBeGreaterThan(6);
    expect(server.logprob(path, 7, 8)).toBe(server.logprob(expected.path, 7, 8));
    expect(await sampleFrom(engine, first.weights)).toEqual(reply);
  });

  test('sampling from a server that is away fails with engine_away, and works when it is back', {
    timeout: 60_000,
  }, async () => {
    const server = await serverOf();
    const engine = await open(server);
    server.fault = () => 'cut';
    await expect(sampleFrom(engine, untrained)).rejects.toMatchObject({ code: 'engine_away' });
    server.fault = () => undefined;
    expect((await sampleFrom(engine, untrained)).tokens).toHaveLength(5);
  });

  test('a silent server is left when the caller leaves', async () => {
    const server = await serverOf();
    const engine = await open(server);
    server.fault = ({ path }) => (path.endsWith('asample') ? 'silent' : undefined);
    const signal = AbortSignal.timeout(200);
    await expect(sampleFrom(engine, untrained, { signal })).rejects.toThrow('aborted due to timeout');
  });

  test('a checkpoint that the server no longer has fails the job by its name', async () => {
    const server = await serverOf();
    const engine = await open(server);
    const first = await trainOnce(engine, untrained, 'first');
    server.checkpoints.clear();
    await expect(trainOnce(engine, first.weights, 'second')).rejects.toMatchObject({
      code: 'checkpoint_missing',
      message: expect.stringContaining(first.path),
    });
  });

  test('a server that is not one of this API is refused when the engine is created', async () => {
    const server = await serverOf();
    server.fault = ({ path }) => (path.endsWith('forward_backward') ? 415 : undefined);
    await expect(open(server)).rejects.toMatchObject({ message: expect.stringContaining('415') });
    await expect(open({ url: 'ftp://box' } as TinkerServer)).rejects.toMatchObject({ code: 'bad_option' });
  });
});
