import { describe, expect, it } from 'vitest';
import { rlConfigSchema } from '../../../../src/contract/index.ts';
import { klPenaltyOf } from '../../../../src/engines/embedded/trainer/kl-penalty.ts';
import { resolveRlConfig } from '../../../../src/learning/index.ts';

// That the penalty is that of the formula is shown in whole jobs: test/service/jobs/loss-fields.test.ts.
describe('the KL penalty of a batch', () => {
  const lossOf = (kl_penalty_coef: number) =>
    resolveRlConfig(rlConfigSchema.parse({ kl_penalty_coef }), { learningRate: 1 }).loss;
  const base = { baseModel: 'martingale-tiny', folder: null };
  const comparison = {
    step: {
      decisions: [],
      logprobs: async () => [],
    },
    baseModel: base.baseModel,
    passesOf: async () => ({ decisions: [], logprobs: async () => [] }),
    vector: new Float32Array(),
    reference: null,
    load: async () => new Float32Array(),
    signal: new AbortController().signal,
  };

  it('is null when it is off', async () => {
    expect(await klPenaltyOf(lossOf(0), comparison)).toBeNull();
    expect(await klPenaltyOf({ type: 'cross_entropy' }, comparison)).toBeNull();
  });

  it('needs a reference', async () => {
    await expect(klPenaltyOf(lossOf(1), comparison)).rejects.toMatchObject({ code: 'no_reference' });
  });
});
