import { z } from 'zod';
import { optional } from './optional.ts';
import { trajectoryGroupSchema } from './trajectories.ts';

/**
 * The options of a reinforcement-learning job. Absent and `null` mean the default. Names that deployed clients
 * send and this service does not have are listed in `refusedConfigFields` and refused by name.
 */
export const rlConfigSchema = z
  .strictObject({
    /** Step size of Adam. Default: the base model's own (an embedded model needs a far larger one than an adapter). */
    learning_rate: optional(z.number().positive()),
    /** -1..1. Above 0 weakens negative advantages by (1 - b), below 0 positive ones by (1 + b). Default 0. */
    advantage_balance: optional(z.number().min(-1).max(1)),
    /** Divide a group's advantages by its standard deviation. Default true. */
    scale_rewards: optional(z.boolean()),
    /** PPO's pessimistic clip instead of CISPO. Default false. */
    ppo: optional(z.boolean()),
    /** Lower clip width. Default 1 (CISPO) or 0.2 (PPO). */
    epsilon: optional(z.number().min(0)),
    /** Upper clip width. Default 4 (CISPO) or `epsilon` (PPO). */
    epsilon_high: optional(z.number().min(0)),
    /** Zero the ratio outside (1 - epsilon, 1 + epsilon_high) instead of clipping it. Default false. */
    mask_prob_ratio: optional(z.boolean()),
    /** Upper bound of the importance ratio. Default none. */
    max_negative_advantage_importance_sampling_weight: optional(z.number().positive()),
    /** Subtract tau * (log p_now - log p_sampled) from the advantage of each token. Default 0. */
    vendor_k2_tau: optional(z.number().min(0)),
    /** Recompute the sampled log-probabilities with the trainer before the first update. Default false. */
    precalculate_logprobs: optional(z.boolean()),
    /** Added by us. Weight of an entropy bonus over the legal tokens. Default 0. */
    entropy_coefficient: optional(z.number().min(0)),
  })
  .meta({ id: 'ExperimentalTrainingConfig' });

/** Options of the public service that this one does not have, each refused by its name. */
export const refusedConfigFields = [
  'importance_sampling_level',
  'kl_penalty_coef',
  'kl_penalty_reference_step',
  'kl_penalty_source',
  'truncated_importance_sampling',
  'loss_fn',
  'normalize_advantages',
  'allow_training_without_logprobs',
  'packed_sequence_length',
  'num_trajectories_learning_rate_multiplier_power',
  'scale_learning_rate_by_reward_std_dev',
  'logprob_calculation_chunk_size',
  'plot_tensors',
  'kl_ref_adapter_path',
] as const;

export const createTrainingJobRequestSchema = z
  .object({
    model_id: z.uuid(),
    trajectory_groups: z.array(trajectoryGroupSchema).min(1),
    experimental_config: optional(rlConfigSchema),
  })
  .meta({ id: 'CreateTrainingJobRequest' });

export const createJobResponseSchema = z.object({ id: z.uuid() }).meta({ id: 'CreateTrainingJobResponse' });

export const sftConfigSchema = z
  .strictObject({
    /** Conversations a gradient step takes. Default "auto". */
    batch_size: optional(z.union([z.number().int().min(1), z.literal('auto')])),
    /** One value, or one for each batch. Default: the base model's own. */
    learning_rate: optional(z.union([z.number().positive(), z.array(z.number().positive()).min(1)])),
  })
  .meta({ id: 'SftTrainingConfig' });

export const createSftTrainingJobRequestSchema = z
  .object({
    model_id: z.uuid(),
    /** The `url` that an upload answered with. */
    training_data_url: z.string().min(1),
    config: optional(sftConfigSchema),
    experimental_config: optional(z.record(z.string(), z.unknown())),
  })
  .meta({ id: 'CreateSftTrainingJobRequest' });

export const jobStatusSchema = z.enum(['queued', 'running', 'succeeded', 'failed', 'cancelled']);
export const jobKindSchema = z.enum(['rl', 'sft']);

/** A training job. The public interface promises `id` alone; the rest is added by us. */
export const trainingJobSchema = z
  .object({
    id: z.uuid(),
    model_id: z.uuid(),
    kind: jobKindSchema,
    status: jobStatusSchema,
    created_at: z.iso.datetime(),
    started_at: z.iso.datetime().nullable(),
    ended_at: z.iso.datetime().nullable(),
    error_message: z.string().nullable(),
    /** The options with every default filled in. */
    resolved_config: z.record(z.string(), z.unknown()),
    /** Step of the checkpoint the job made; null until it has. */
    step: z.number().int().nullable(),
  })
  .meta({ id: 'TrainingJob' });

export type RlConfig = z.input<typeof rlConfigSchema>;
export type ParsedRlConfig = z.output<typeof rlConfigSchema>;
export type SftConfig = z.input<typeof sftConfigSchema>;
export type CreateTrainingJobRequest = z.input<typeof createTrainingJobRequestSchema>;
export type CreateSftTrainingJobRequest = z.input<typeof createSftTrainingJobRequestSchema>;
export type JobStatus = z.infer<typeof jobStatusSchema>;
export type JobKind = z.infer<typeof jobKindSchema>;
export type TrainingJob = z.infer<typeof trainingJobSchema>;
