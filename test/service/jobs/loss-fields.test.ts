import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rlConfigSchema } from '../../../src/contract/index.ts';
import { referenceLoss, referenceObjective } from '../../learning/reference-objective.ts';
import { llamaModel, tinyModel } from '../../support/base-models.ts';
import type { Json } from '../harness.ts';
import { type EmbeddedService, startEmbedded } from './embedded-service.ts';
import { type KnownRollouts, sampleRollouts } from './known-rollouts.ts';

/** So small that float32 weights do not change: every job of the table begins with the same policy. */
const still = 1e-30;

interface Row {
  /** The field, by one of its names. */
  field: string;
  value: unknown;
  /** Fields that it needs to have an effect. */
  beside?: Record<string, unknown>;
  /** The reference's weights are those that sampled. */
  ownReference?: boolean;
}

const level = 'importance_sampling_level';
const penalty = { kl_penalty_coef: 0.5 };
const table: Row[] = [
  { field: 'advantage_balance', value: 0.4 },
  { field: 'advantage_balance', value: -0.5 },
  { field: 'scale_rewards', value: false },
  { field: 'normalize_advantages', value: true },
  { field: 'ppo', value: true },
  { field: 'loss_fn', value: 'ppo' },
  { field: 'epsilon', value: 0.1 },
  { field: 'epsilon', value: 0.5, beside: { ppo: true } },
  { field: 'epsilon_high', value: 0.5 },
  { field: 'epsilon_high', value: 2, beside: { ppo: true } },
  { field: 'mask_prob_ratio', value: true, beside: { epsilon_high: 1 } },
  { field: 'max_negative_advantage_importance_sampling_weight', value: 1.2 },
  { field: 'vendor_k2_tau', value: 0.5 },
  { field: 'kimi_k2_tau', value: 0.5 },
  { field: 'precalculate_logprobs', value: true },
  { field: level, value: 'sequence' },
  { field: level, value: 'sequence', beside: { ppo: true } },
  { field: level, value: 'average' },
  { field: level, value: 'geometric_average', beside: { ppo: true } },
  { field: 'truncated_importance_sampling', value: 1.1 },
  { field: 'truncated_importance_sampling', value: 1.1, beside: { precalculate_logprobs: true } },
  { field: 'kl_penalty_coef', value: 0.5 },
  { field: 'kl_penalty_coef', value: 0.5, beside: { kl_penalty_source: 'current_learner', ppo: true } },
  { field: 'kl_penalty_source', value: 'sample', beside: penalty },
  { field: 'kl_penalty_reference_step', value: 1, beside: penalty, ownReference: true },
  {
    field: 'kl_penalty_reference_step',
    value: 1,
    beside: { ...penalty, kl_penalty_source: 'sample' },
    ownReference: true,
  },
  {
    field: 'kl_penalty_reference_model',
    value: 'team/desk/letters:step1',
    beside: penalty,
    ownReference: true,
  },
  {
    field: 'kl_penalty_reference_model',
    value: 'team/desk/letters:step0',
    beside: { ...penalty, kl_penalty_source: 'sample' },
  },
  { field: 'entropy_coefficient', value: 0.05 },
];

// With Qwen3's template, each turn of these conversations would be a sequence of its own.
describe.each([tinyModel, llamaModel])('the loss of a job of $baseModel matches the formulas', (tested) => {
  let service: EmbeddedService;
  let model: Json;
  let rollouts: KnownRollouts;
  let step = 1;

  const known = (ownReference = false) =>
    rollouts.known.map((group) =>
      group.map(({ reward, histories }) => ({
        reward,
        histories: histories.map((tokens) =>
          tokens.map((token) => (ownReference ? { ...token, reference: token.current } : token)),
        ),
      })),
    );
  const train = async (config: object | null): Promise<Json> => {
    const [data] = await service.run('training-jobs', {
      model_id: model.id,
      trajectory_groups: rollouts.groups,
      experimental_config: config && { learning_rate: still, ...config },
    });
    // The first two stay: the base and what the rollouts were sampled with.
    const steps = step > 1 ? [step] : [];
    step++;
    if (steps.length > 0)
      await service.call('DELETE', `/v1/preview/models/${model.id}/checkpoints`, { steps });
    return data;
  };

  beforeAll(async () => {
    service = await startEmbedded(tested);
    model = await service.createModel('letters');
    const demonstration = {
      messages: [
        { role: 'user', content: 'question 0 of 1 at 1' },
        { role: 'assistant', content: 'c' },
      ],
      structured_outputs: { regex: '[a-h]' },
    };
    await service.sft(model.id, [demonstration], { learning_rate: 0.01 });
    rollouts = await sampleRollouts(service, { policy: 'team/desk/letters:step1', base: tested.baseModel });
  }, 60_000);

  afterAll(() => service.close());

  it('with the defaults: no config, an empty config, and null in every field', async () => {
    const expected = referenceLoss(known(), {});
    const nulls = Object.fromEntries(Object.keys(rlConfigSchema.shape).map((name) => [name, null]));
    for (const config of [{}, { ...nulls, kimi_k2_tau: null, learning_rate: still }]) {
      const data = await train(config);
      expect(Math.abs(data.loss - expected)).toBeLessThan(1e-4);
      expect(data).toMatchObject({
        ...{ num_groups_submitted: 3, num_groups_trainable: 2, num_groups_without_signal: 1 },
        learning_rate: still,
      });
      expect(data.num_trainable_tokens).toBe(referenceObjective(known(), {}).tokens.length);
      expect(data).not.toHaveProperty('kl_policy_ref');
    }
  });

  it.each(table)(
    'with $field $value beside $beside, and with null beside others',
    async ({ field, value, beside, ownReference }) => {
      const config = { ...beside, [field]: value };
      const groups = known(ownReference);
      const data = await train(config);
      const expected = referenceLoss(groups, config);
      expect(Math.abs(data.loss - expected)).toBeLessThan(1e-4);
      // A field must have an effect, or the comparison proves nothing.
      const without = referenceLoss(known(), beside ?? {});
      expect(Math.abs(expected - without)).toBeGreaterThan(2e-3);
      if (!beside) return;
      const unset = await train({ ...beside, [field]: null });
      expect(Math.abs(unset.loss - without)).toBeLessThan(1e-4);
    },
  );

  it('with kl_penalty_step_lag, whose reference moves with the newest checkpoint', {
    tags: ['long'],
  }, async () => {
    if (step === 1) await train({});
    const config = { kl_penalty_coef: 0.5, kl_penalty_source: 'sample' };
    const own = referenceLoss(known(true), config);
    const base = referenceLoss(known(), config);
    expect(Math.abs(own - base)).toBeGreaterThan(2e-3);
    for (let count = 0; count < 2; count++) {
      // Step 1 has the weights that sampled, step 0 those of the base model.
      const toSampler = await train({ ...config, kl_penalty_step_lag: step - 1 });
      expect(Math.abs(toSampler.loss - own)).toBeLessThan(1e-4);
      const toBase = await train({ ...config, kl_penalty_step_lag: step + 7 });
      expect(Math.abs(toBase.loss - base)).toBeLessThan(1e-4);
    }
  });

  it('reports the distance of policy and reference if there is a penalty', {
    tags: ['long'],
  }, async () => {
    const { tokens } = referenceObjective(known(), {});
    const mean =
      tokens.reduce((sum, { current, reference = 0 }) => sum + current - reference, 0) / tokens.length;
    expect(Math.abs(mean)).toBeGreaterThan(0.01);
    const data = await train({ kl_penalty_coef: 0.1 });
    expect(Math.abs(data.kl_policy_ref - mean)).toBeLessThan(1e-4);
    const own = await train({ kl_penalty_coef: 0.1, kl_penalty_reference_step: 1 });
    expect(Math.abs(own.kl_policy_ref)).toBeLessThan(1e-6);
  });

  it('uses the given learning rate, or the base model’s by default', async () => {
    const before = await train({});
    const slow = await train({ learning_rate: 1e-4 });
    expect([before.learning_rate, slow.learning_rate]).toEqual([still, 1e-4]);
    // It was computed with the earlier weights; the next one shows the step.
    expect(slow.loss).toBeCloseTo(before.loss, 6);
    const moved = await train(null);
    expect(moved.loss).not.toBeCloseTo(before.loss, 4);
    const base = service.engine.baseModels.find(({ id }) => id === tested.baseModel);
    expect(moved.learning_rate).toBe(base?.defaults.rlLearningRate);
  });
});
