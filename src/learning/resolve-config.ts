import type { ParsedRlConfig } from '../contract/index.ts';
import type { ImportanceLevel, LossConfig } from './datum.ts';

/** Every option of a reinforcement-learning job with its default filled in, under its name on the wire. */
export interface ResolvedRlConfig extends Record<string, unknown> {
  learning_rate: number;
  advantage_balance: number;
  scale_rewards: boolean;
  normalize_advantages: boolean;
  /** Whether `loss_fn` is "ppo". */
  ppo: boolean;
  loss_fn: 'cispo' | 'ppo';
  epsilon: number;
  epsilon_high: number;
  mask_prob_ratio: boolean;
  /** null: no bound. */
  max_negative_advantage_importance_sampling_weight: number | null;
  vendor_k2_tau: number;
  precalculate_logprobs: boolean;
  importance_sampling_level: ImportanceLevel;
  /** null: no truncation. */
  truncated_importance_sampling: number | null;
  kl_penalty_coef: number;
  /** Step of the reference's checkpoint. null: `kl_penalty_step_lag` applies, or the base model without it. */
  kl_penalty_reference_step: number | null;
  /** Steps from the reference to the checkpoint that the job starts from. null: the reference is fixed. */
  kl_penalty_step_lag: number | null;
  /** Name of the teacher: the reference in place of a checkpoint of the model. null: none. */
  kl_penalty_reference_model: string | null;
  kl_penalty_source: 'current_learner' | 'sample';
  entropy_coefficient: number;
}

/** The members of `LossConfig` for reinforcement learning. */
export type PolicyLossConfig = Extract<LossConfig, { type: 'cispo' | 'ppo' }>;

interface ResolvedRlJob {
  /** The job's `resolved_config`. */
  config: ResolvedRlConfig;
  loss: PolicyLossConfig;
}

/**
 * Fills in the options that a job's config leaves out; `null` and absent are the same. Defaults: CISPO with `epsilon` 1
 * and `epsilon_high` 4; with `ppo` or `loss_fn` "ppo", `epsilon` 0.2 and `epsilon_high` = `epsilon`; `scale_rewards`
 * true; the learning rate of `defaults`, which comes from the base model; importance ratios by token; the base model as
 * the KL penalty's reference and the weights being trained as its source; everything else off.
 *
 * `max_negative_advantage_importance_sampling_weight` bounds the ratio of **every** token, despite its name also with a
 * positive advantage. The public trainer does the same, and the same config must train the same. With CISPO's defaults
 * it has an effect only below 5, where it binds before the clip.
 *
 * `mask_prob_ratio` with CISPO and `epsilon` below 1 does not remove a token from the loss: the clip that follows
 * raises the masked ratio from 0 to 1 - epsilon, as in the public trainer. With the default `epsilon` of 1 it does.
 */
export function resolveRlConfig(
  requested: ParsedRlConfig | undefined,
  defaults: { learningRate: number },
): ResolvedRlJob {
  const ppo = requested?.ppo ?? requested?.loss_fn === 'ppo';
  const epsilon = requested?.epsilon ?? (ppo ? 0.2 : 1);
  const config: ResolvedRlConfig = {
    learning_rate: requested?.learning_rate ?? defaults.learningRate,
    advantage_balance: requested?.advantage_balance ?? 0,
    scale_rewards: requested?.scale_rewards ?? true,
    normalize_advantages: requested?.normalize_advantages ?? false,
    ppo,
    loss_fn: ppo ? 'ppo' : 'cispo',
    epsilon,
    epsilon_high: requested?.epsilon_high ?? (ppo ? epsilon : 4),
    mask_prob_ratio: requested?.mask_prob_ratio ?? false,
    max_negative_advantage_importance_sampling_weight:
      requested?.max_negative_advantage_importance_sampling_weight ?? null,
    vendor_k2_tau: requested?.vendor_k2_tau ?? 0,
    precalculate_logprobs: requested?.precalculate_logprobs ?? false,
    importance_sampling_level: requested?.importance_sampling_level ?? 'token',
    truncated_importance_sampling: requested?.truncated_importance_sampling ?? null,
    kl_penalty_coef: requested?.kl_penalty_coef ?? 0,
    kl_penalty_reference_step: requested?.kl_penalty_reference_step ?? null,
    kl_penalty_step_lag: requested?.kl_penalty_step_lag ?? null,
    kl_penalty_reference_model: requested?.kl_penalty_reference_model ?? null,
    kl_penalty_source: requested?.kl_penalty_source ?? 'current_learner',
    entropy_coefficient: requested?.entropy_coefficient ?? 0,
  };
  return {
    config,
    loss: {
      type: config.loss_fn,
      epsilon: config.epsilon,
      epsilonHigh: config.epsilon_high,
      maskRatio: config.mask_prob_ratio,
      maxRatio: config.max_negative_advantage_importance_sampling_weight,
      tau: config.vendor_k2_tau,
      precalculateLogprobs: config.precalculate_logprobs,
      entropyCoefficient: config.entropy_coefficient,
      importanceLevel: config.importance_sampling_level,
      truncation: config.truncated_importance_sampling,
      klPenalty:
        config.kl_penalty_coef === 0
          ? null
          : {
              coefficient: config.kl_penalty_coef,
              source: config.kl_penalty_source,
              isCentred: config.kl_penalty_reference_model === null,
            },
    },
  };
}

/** Whether a job learns from a teacher, so that it trains on replies whose rewards teach nothing, too. */
export const hasTeacher = (
  config: Pick<ResolvedRlConfig, 'kl_penalty_reference_model' | 'kl_penalty_coef'>,
): boolean => config.kl_penalty_reference_model !== null && config.kl_penalty_coef > 0;
