import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { BaseModels, type EmbeddedBaseModel } from '../../../../src/engines/embedded/base-models.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { type Trained, trainedShapes } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import { Decoder } from '../../../../src/engines/embedded/sampler/decoder.ts';
import type { Weights } from '../../../../src/engines/engine.ts';
import type { Constraint } from '../../../../src/language/grammar/constraint.ts';
import { type Datum, plainSampling } from '../../../../src/learning/index.ts';
import { sharedFolder } from '../../../support/files.ts';
import { adapterOfTests, codecOfTokens, randomModel } from '../checkpoint/models.ts';
import { runtime } from '../sampler/support.ts';
import { batchOf, openTrainer } from '../support.ts';

const prompts = [7, 9, 12, 20].map((token) => [1, token, 3]);
const attempts = 16;
/** An eighth of the tokens is right, others for each prompt. */
const isRight = (prompt: number, token: number) => token % 8 === prompt;

/** Replies of one token: their training data, and how many are right. */
function sampleReplies(prompt: number, logits: Float32Array, random: Random) {
  const tokens = prompts[prompt] as number[];
  const likelihoods = Array.from(logits, Math.exp);
  const total = likelihoods.reduce((sum, value) => sum + value, 0);
  const replies = Array.from({ length: attempts }, () => {
    let token = -1;
    for (let left = random.uniform() * total; left >= 0 && token + 1 < likelihoods.length; )
      left -= likelihoods[++token] as number;
    return { token, logprob: Math.log((likelihoods[token] as number) / total) };
  });
  const right = replies.filter(({ token }) => isRight(prompt, token)).length / attempts;
  const datums = replies.map(({ token, logprob }): Datum<Constraint> => {
    const span = {
      ...{ start: tokens.length, length: 1, logprobs: [logprob] },
      ...{ sampling: plainSampling, constraint: null, weight: 1 / attempts },
      advantage: (isRight(prompt, token) ? 1 : 0) - right,
    };
    return { tokens: [...tokens, token], spans: [span] };
  });
  return { right, datums };
}

/** `vector`: an adapter, or all weights. */
function decoderOf({ trained, ...model }: EmbeddedBaseModel, vector: Float32Array): Promise<Decoder> {
  if (trained !== 'all') return Decoder.create(runtime, model, { lora: trained, vector });
  const shapes = trainedShapes(model.architecture, trained);
  const weights = shapes.map(
    ({ name, offset, size }) => [name, vector.subarray(offset, offset + size)] as const,
  );
  return Decoder.create(runtime, { ...model, weights: new Map(weights) }, null);
}

describe('a small checkpoint with random weights', () => {
  const folder = sharedFolder();

  /** Samples and trains by turns, each from the last checkpoint; checks that the right replies become nearly all. */
  async function learn(seed: number, trained: Trained): Promise<void> {
    const model = { ...randomModel('random', seed), trained };
    const { id, vocabularySize } = model;
    const models = new BaseModels([model]);
    const trainer = openTrainer(runtime, { models, codecOf: () => codecOfTokens(vocabularySize) });
    const random = new Random(seed);
    let weights: Weights = { baseModel: id, folder: null };
    const rates: number[] = [];
    for (let step = 0; step < 30; step++) {
      const vector = await models.loadVector(weights);
      const decoder = await decoderOf(model, vector);
      decoder.cache.reserve(prompts.length, 8, 0);
      const chunks = prompts.map((tokens) => ({ tokens, start: 0, end: tokens.length }));
      const { logits } = await decoder.run(0, chunks);
      const groups = prompts.map((_, prompt) =>
        sampleReplies(
          prompt,
          logits.subarray(prompt * vocabularySize, (prompt + 1) * vocabularySize),
          random,
        ),
      );
      await decoder.close();
      rates.push(groups.reduce((sum, { right }) => sum + right, 0) / prompts.length);
      const to = join(folder, `${trained === 'all' ? trained : 'lora'}-${seed}-${step}`);
      await trainer.begin(weights);
      await trainer.step(
        batchOf(
          groups.flatMap(({ datums }) => datums),
          trained === 'all' ? 2e-3 : 1e-2,
        ),
      );
      await trainer.save(to);
      weights = { baseModel: id, folder: to };
    }
    await trainer.close();
    expect(rates[0]).toBeLessThan(0.35);
    const last = rates.slice(-5);
    expect(last.reduce((sum, rate) => sum + rate, 0) / last.length).toBeGreaterThan(0.9);
  }

  it('learns by LoRA which tokens are rewarded', () => learn(1, adapterOfTests));

  it('learns it in all its weights', () => learn(1, 'all'));

  it.each([2, 3])('learns it with seed %i', { tags: ['long'] }, async (seed) => {
    await learn(seed, adapterOfTests);
    await learn(seed, 'all');
  });
});
