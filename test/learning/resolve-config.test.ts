import { describe, expect, it } from 'vitest';
import { rlConfigSchema } from '../../src/contract/index.ts';
import { resolveRlConfig } from '../../src/learning/index.ts';

const defaults = { learningRate: 0.003 };

describe('resolveRlConfig', () => {
  it('defaults to CISPO with 1 and 4 and the base model’s learning rate', () => {
    const { config, loss } = resolveRlConfig(undefined, defaults);
    expect(config).toEqual({
      learning_rate: 0.003,
      advantage_balance: 0,
      scale_rewards: true,
      normalize_advantages: false,
      ppo: false,
      loss_fn: 'cispo',
      epsilon: 1,
      epsilon_high: 4,
      mask_prob_ratio: false,
      max_negative_advantage_importance_sampling_weight: null,
      vendor_k2_tau: 0,
      precalculate_logprobs: false,
      importance_sampling_level: 'token',
      truncated_importance_sampling: null,
      kl_penalty_coef: 0,
      kl_penalty_reference_step: null,
      kl_penalty_step_lag: null,
      kl_penalty_reference_model: null,
      kl_penalty_source: 'current_learner',
      entropy_coefficient: 0,
    });
    expect(loss).toEqual({
      type: 'cispo',
      epsilon: 1,
      epsilonHigh: 4,
      maskRatio: false,
      maxRatio: null,
      tau: 0,
      precalculateLogprobs: false,
      entropyCoefficient: 0,
      importanceLevel: 'token',
      truncation: null,
      klPenalty: null,
    });
  });

  it('treats null as absent in every field', () => {
    const names = Object.keys(rlConfigSchema.shape);
    const nulls = rlConfigSchema.parse(Object.fromEntries(names.map((name) => [name, null])));
    expect(resolveRlConfig(nulls, defaults)).toEqual(resolveRlConfig(undefined, defaults));
  });

  it('sets PPO’s upper clip to its lower one by default', () => {
    const resolve = (sent: object) =>
      resolveRlConfig(rlConfigSchema.parse({ ppo: true, ...sent }), defaults).loss;
    expect(resolve({})).toMatchObject({ type: 'ppo', epsilon: 0.2, epsilonHigh: 0.2 });
    expect(resolve({ epsilon: 0.1 })).toMatchObject({ epsilon: 0.1, epsilonHigh: 0.1 });
    expect(resolve({ epsilon: 0.1, epsilon_high: 0.3 })).toMatchObject({ epsilon: 0.1, epsilonHigh: 0.3 });
  });

  it('reports every field of the contract with its value', () => {
    const sent = {
      learning_rate: 1,
      advantage_balance: -0.5,
      scale_rewards: false,
      normalize_advantages: true,
      ppo: true,
      loss_fn: 'ppo' as const,
      epsilon: 0,
      epsilon_high: 0,
      mask_prob_ratio: true,
      max_negative_advantage_importance_sampling_weight: 2,
      vendor_k2_tau: 0.1,
      precalculate_logprobs: true,
      importance_sampling_level: 'sequence' as const,
      truncated_importance_sampling: 1.5,
      kl_penalty_coef: 0.1,
      kl_penalty_reference_step: null,
      kl_penalty_step_lag: 3,
      kl_penalty_reference_model: null,
      kl_penalty_source: 'sample' as const,
      entropy_coefficient: 0.01,
    };
    const { config, loss } = resolveRlConfig(rlConfigSchema.parse(sent), defaults);
    expect(config).toEqual(sent);
    const other = { ...sent, kl_penalty_reference_step: 4, kl_penalty_step_lag: null };
    expect(resolveRlConfig(rlConfigSchema.parse(other), defaults).config).toEqual(other);
    const taught = { ...sent, kl_penalty_reference_model: 'team/desk/large', kl_penalty_step_lag: null };
    const resolved = resolveRlConfig(rlConfigSchema.parse(taught), defaults);
    expect(resolved).toMatchObject({ config: taught, loss: { klPenalty: { isCentred: false } } });
    expect(Object.keys(config).sort()).toEqual(Object.keys(rlConfigSchema.shape).sort());
    expect(loss).toMatchObject({ maskRatio: true, maxRatio: 2, tau: 0.1, precalculateLogprobs: true });
    expect(loss).toMatchObject({ entropyCoefficient: 0.01, epsilon: 0, epsilonHigh: 0 });
    expect(loss).toMatchObject({
      importanceLevel: 'sequence',
      truncation: 1.5,
      klPenalty: { coefficient: 0.1, source: 'sample', isCentred: true },
    });
  });

  it('accepts its own output: a job resumes with the same config', () => {
    for (const sent of [{}, { loss_fn: 'ppo' }, { kl_penalty_coef: 0.1, kl_penalty_reference_step: 2 }]) {
      const first = resolveRlConfig(rlConfigSchema.parse(sent), defaults);
      expect(resolveRlConfig(rlConfigSchema.parse(first.config), { learningRate: 9 })).toEqual(first);
    }
  });

  it.each([
    [{ ppo: true, loss_fn: 'cispo' }, 'loss_fn', /loss_fn "cispo" contradicts ppo true/],
    [{ ppo: false, loss_fn: 'ppo' }, 'loss_fn', /loss_fn "ppo" contradicts ppo false/],
    [{ kl_penalty_reference_step: 0 }, 'kl_penalty_reference_step', /send kl_penalty_coef/],
    [{ kl_penalty_source: 'sample', kl_penalty_coef: null }, 'kl_penalty_source', /send kl_penalty_coef/],
  ])('refuses the contradictory %j by name', (sent, name, reason) => {
    const issues = rlConfigSchema.safeParse(sent).error?.issues ?? [];
    expect(issues).toMatchObject([{ path: [name], message: expect.stringMatching(reason) }]);
  });

  it.each([
    [{ ppo: true, loss_fn: 'ppo' }, 'ppo'],
    [{ ppo: null, loss_fn: 'ppo' }, 'ppo'],
    [{ ppo: true, loss_fn: null }, 'ppo'],
    [{ ppo: false, loss_fn: 'cispo' }, 'cispo'],
    [{ loss_fn: 'cispo' }, 'cispo'],
  ])('reads the loss from %j', (sent, type) => {
    const { config, loss } = resolveRlConfig(rlConfigSchema.parse(sent), defaults);
    expect([loss.type, config.loss_fn, config.ppo]).toEqual([type, type, type === 'ppo']);
    expect(config.epsilon).toBe(type === 'ppo' ? 0.2 : 1);
  });
});
