import { describe, expect, it } from 'vitest';
import { rlConfigSchema } from '../../../../src/contract/index.ts';
import { loadWeights } from '../../../../src/engines/embedded/base-models.ts';
import { loadRuntime } from '../../../../src/engines/embedded/runtime.ts';
import { LocalGraphs, TrainingSessions } from '../../../../src/engines/embedded/trainer/graph-runner.ts';
import { klPenaltyOf } from '../../../../src/engines/embedded/trainer/kl-penalty.ts';
import { resolveRlConfig } from '../../../../src/learning/index.ts';

// That the penalty is that of the formula is shown in whole jobs: test/service/jobs/loss-fields.test.ts.
describe('the KL penalty of a batch', () => {
  const lossOf = (kl_penalty_coef: number) =>
    resolveRlConfig(rlConfigSchema.parse({ kl_penalty_coef }), { learningRate: 1 }).loss;
  const base = { baseModel: 'martingale-tiny', folder: null };
  const prepare = async () => ({
    baseModel: base.baseModel,
    weights: await loadWeights(base),
    runners: [new LocalGraphs(new TrainingSessions(await loadRuntime('auto', 1)))],
    signal: new AbortController().signal,
  });

  it('is null when it is off', async () => {
    const model = await prepare();
    expect(await klPenaltyOf(lossOf(0), null, model, [])).toBeNull();
    expect(await klPenaltyOf({ type: 'cross_entropy' }, null, model, [])).toBeNull();
  });

  it('needs a reference, of the same base model', async () => {
    const model = await prepare();
    await expect(klPenaltyOf(lossOf(1), null, model, [])).rejects.toMatchObject({
      code: 'no_reference',
    });
    const small = { baseModel: 'martingale-small', folder: null };
    await expect(klPenaltyOf(lossOf(1), small, model, [])).rejects.toMatchObject({
      code: 'bad_reference',
    });
  });
});
