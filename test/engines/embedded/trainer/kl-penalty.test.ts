import { describe, expect, it } from 'vitest';
import { rlConfigSchema } from '../../../../src/contract/index.ts';
import { findBaseModel, loadWeights } from '../../../../src/engines/embedded/base-models.ts';
import { forwardGraph } from '../../../../src/engines/embedded/graphs/forward-graph.ts';
import { loadRuntime } from '../../../../src/engines/embedded/runtime.ts';
import { klPenaltyOf } from '../../../../src/engines/embedded/trainer/forward-pass.ts';
import { resolveRlConfig } from '../../../../src/learning/index.ts';

// That the penalty is that of the formula is shown in whole jobs: test/service/jobs/loss-fields.test.ts.
describe('the KL penalty of a batch', () => {
  const lossOf = (kl_penalty_coef: number) =>
    resolveRlConfig(rlConfigSchema.parse({ kl_penalty_coef }), { learningRate: 1 }).loss;
  const base = { baseModel: 'martingale-tiny', folder: null };
  const prepare = async () => {
    const runtime = await loadRuntime('auto', 1);
    const { architecture } = findBaseModel(base.baseModel);
    const forward = await runtime.session(forwardGraph(architecture));
    return { runtime, model: { architecture, graphs: { forward }, weights: await loadWeights(base) } };
  };

  it('is null when it is off', async () => {
    const { runtime, model } = await prepare();
    expect(await klPenaltyOf(lossOf(0), null, model, [], runtime)).toBeNull();
    expect(await klPenaltyOf({ type: 'cross_entropy' }, null, model, [], runtime)).toBeNull();
  });

  it('needs a reference, of the same base model', async () => {
    const { runtime, model } = await prepare();
    await expect(klPenaltyOf(lossOf(1), null, model, [], runtime)).rejects.toMatchObject({
      code: 'no_reference',
    });
    const small = { baseModel: 'martingale-small', folder: null };
    await expect(klPenaltyOf(lossOf(1), small, model, [], runtime)).rejects.toMatchObject({
      code: 'bad_reference',
    });
  });
});
