import { z } from 'zod';
import { figure, list, numberList, optional, record, text } from './bounded.ts';
import { trainingLimits } from './limits.ts';
import { trajectoryGroupSchema } from './trajectories.ts';

/**
 * The options of a reinforcement-learning job. Absent and `null` mean the default. `refusedConfigFields` lists names
 * that deployed clients send and this service refuses.
 */
export const rlConfigSchema = z
  .strictObject({
    learning_rate: optional(figure().positive()).describe(
      "Step size of Adam. Default: the base model's own (an embedded model needs a far larger one than an adapter).",
    ),
    advantage_balance: optional(z.number().min(-1).max(1)).describe(
      'b in -1..1: above 0 weakens negative advantages by (1 - b), below 0 positive ones by (1 + b). Default 0.',
    ),
    scale_rewards: optional(z.boolean()).describe(
      "Divide a group's advantages by its rewards' population standard deviation plus 1e-6. Default true.",
    ),
    normalize_advantages: optional(z.boolean()).describe(
      "Divide the batch's advantages, balanced as they are, by the mean over its trainable tokens of |A| * w, where w is a token's weight scaled to mean 1: the mean of |A| over the trajectories that train. Default false.",
    ),
    ppo: optional(z.boolean()).describe("PPO's pessimistic clip instead of CISPO. Default false."),
    loss_fn: optional(z.enum(['cispo', 'ppo'])).describe(
      'The same choice by name; one that contradicts ppo is refused. Default "ppo" where ppo is true, else "cispo".',
    ),
    epsilon: optional(figure().min(0)).describe('Lower clip width. Default 1 (CISPO) or 0.2 (PPO).'),
    epsilon_high: optional(figure().min(0)).describe('Upper clip width. Default 4 (CISPO) or epsilon (PPO).'),
    mask_prob_ratio: optional(z.boolean()).describe(
      'Zero the ratio outside (1 - epsilon, 1 + epsilon_high) before it is clipped; with CISPO and epsilon below 1 the clip then lifts it to 1 - epsilon. Default false.',
    ),
    max_negative_advantage_importance_sampling_weight: optional(figure().positive()).describe(
      'Upper bound of the importance ratio, of all tokens whatever the sign of their advantage. Default none.',
    ),
    vendor_k2_tau: optional(figure().min(0)).describe(
      'tau: subtracts tau * (log p now - log p when sampled), without its gradient, from the advantage of each token. Default 0.',
    ),
    precalculate_logprobs: optional(z.boolean()).describe(
      "Take the trainer's log-probabilities before the first update for those of the sampler. Default false.",
    ),
    importance_sampling_level: optional(
      z.enum(['token', 'sequence', 'average', 'geometric_average']),
    ).describe(
      "What a token's importance ratio is: its own ratio (token), exp of the mean log-ratio over its sequence's sampled tokens (sequence), or the mean of both, arithmetic (average) or geometric (geometric_average). A sequence is one history, or one choice with a prompt of its own. Default token.",
    ),
    truncated_importance_sampling: optional(figure().positive()).describe(
      "C: multiplies a token's loss by min(rho, C), where rho is its importance ratio before bound and mask, or with precalculate_logprobs that of the trainer before the first update to the sampler. Default off.",
    ),
    kl_penalty_coef: optional(figure().min(0)).describe(
      "c: with k = the source's log-probability of a token minus the reference's, adds c * (mean of k over the batch's trainable tokens - k) to its advantage. Default 0.",
    ),
    kl_penalty_reference_step: optional(z.number().int().min(0)).describe(
      "Step of the model's checkpoint that is the reference; needs kl_penalty_coef. Default: the base model.",
    ),
    kl_penalty_step_lag: optional(z.number().int().min(1)).describe(
      'n: the reference is the checkpoint whose step is n less than that of the checkpoint the job starts from, or of step 0 where there are not so many; needs kl_penalty_coef, and takes the place of kl_penalty_reference_step. Default: off.',
    ),
    kl_penalty_source: optional(z.enum(['current_learner', 'sample'])).describe(
      'Whose log-probabilities the KL penalty compares with the reference: those of the weights being trained, or those reported when sampling (sample needs kl_penalty_coef). Default current_learner.',
    ),
    entropy_coefficient: optional(figure().min(0)).describe(
      'Added by us: weight of an entropy bonus over the tokens that each token was chosen from. Default 0.',
    ),
  })
  .superRefine((config, context) => {
    const refuse = (name: string, message: string) =>
      context.addIssue({ code: 'custom', path: [name], message });
    const { ppo, loss_fn: loss } = config;
    if (ppo !== undefined && loss !== undefined && ppo !== (loss === 'ppo'))
      refuse('loss_fn', `loss_fn "${loss}" contradicts ppo ${ppo}; send one of them`);
    const { kl_penalty_reference_step: step, kl_penalty_step_lag: lag } = config;
    if (step !== undefined && lag !== undefined)
      refuse(
        'kl_penalty_step_lag',
        `names another reference than kl_penalty_reference_step ${step}; send one of them`,
      );
    if (config.kl_penalty_coef !== undefined) return;
    for (const name of ['kl_penalty_reference_step', 'kl_penalty_step_lag'] as const)
      if (config[name] !== undefined)
        refuse(name, 'there is no KL penalty to take a reference for; send kl_penalty_coef too');
    if (config.kl_penalty_source === 'sample')
      refuse('kl_penalty_source', 'there is no KL penalty to take a source for; send kl_penalty_coef too');
  })
  .meta({ id: 'ExperimentalTrainingConfig' });

/** Options of the public service that this one does not have. Each is refused by name. */
export const refusedConfigFields = [
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
    trajectory_groups: list(trajectoryGroupSchema, trainingLimits.groups).min(1),
    experimental_config: optional(rlConfigSchema),
  })
  .meta({ id: 'CreateTrainingJobRequest' });

export const createJobResponseSchema = z.object({ id: z.uuid() }).meta({ id: 'CreateTrainingJobResponse' });

export const sftConfigSchema = z
  .strictObject({
    batch_size: optional(z.union([z.number().int().min(1), z.literal('auto')])).describe(
      'Conversations a gradient step takes. Default "auto": the base model\'s own.',
    ),
    learning_rate: optional(
      z.union([figure().positive(), numberList(figure().positive(), trainingLimits.learningRates).min(1)]),
    ).describe("One value, or one for each batch. Default: the base model's own."),
    assistant_turns: optional(z.enum(['all', 'last'])).describe(
      'Which messages of the assistant train: all of a conversation, or the last alone, after the others as context. Default all.',
    ),
    metric_logging: optional(
      z.strictObject({
        enabled: optional(z.boolean()).describe(
          "Whether the job's last figures are kept with its checkpoint, as metrics. Default true. The job's events have them in any case.",
        ),
        target_training_step: optional(z.number().int().min(0)).describe(
          'The step that they are kept under. It can be none but that of the checkpoint which the job makes: another is refused, or fails the job where the jobs before it in the queue made more or fewer checkpoints than that. Default: that step.',
        ),
      }),
    ).describe('There is no tracking service here: figures are kept with the checkpoint.'),
  })
  .meta({ id: 'SftTrainingConfig' });

export const createSftTrainingJobRequestSchema = z
  .object({
    model_id: z.uuid(),
    /** The `url` in the answer to an upload. */
    training_data_url: text(trainingLimits.url).min(1),
    config: optional(sftConfigSchema),
    experimental_config: optional(record(z.unknown())),
  })
  .meta({ id: 'CreateSftTrainingJobRequest' });

export const jobStatusSchema = z
  .enum(['queued', 'running', 'succeeded', 'failed', 'cancelled'])
  .meta({ id: 'TrainingJobStatus' });
export const jobKindSchema = z.enum(['rl', 'sft']).meta({ id: 'TrainingJobKind' });

/** Why a reinforcement-learning job took no gradient step. */
export const untrainedSchema = z
  .object({
    reason: z
      .enum(['no_signal', 'no_decisions'])
      .describe(
        'no_signal: in no group do rewards differ. no_decisions: they do, but no reply with an advantage has a sampled token that had an alternative.',
      ),
    message: z.string(),
    metrics: z
      .record(z.string(), z.number())
      .describe('What the groups came to, by the names that gradient_step events have.'),
  })
  .meta({ id: 'Untrained' });

/** A training job. The public interface promises only `id`; the other fields are added by us. */
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
    /** The options, with all defaults filled in. */
    resolved_config: z.record(z.string(), z.unknown()),
    step: z
      .number()
      .int()
      .nullable()
      .describe(
        'Step of the checkpoint that the job made, or of the newest one where it is untrained; null until then.',
      ),
    untrained: untrainedSchema
      .nullable()
      .describe(
        'Why a job that succeeded took no gradient step and made no checkpoint; null of every other job. Also in the data of training_ended.',
      ),
  })
  .meta({ id: 'TrainingJob' });

export type RlConfig = z.input<typeof rlConfigSchema>;
export type ParsedRlConfig = z.output<typeof rlConfigSchema>;
export type SftConfig = z.input<typeof sftConfigSchema>;
export type CreateTrainingJobRequest = z.input<typeof createTrainingJobRequestSchema>;
export type CreateSftTrainingJobRequest = z.input<typeof createSftTrainingJobRequestSchema>;
export type JobStatus = z.infer<typeof jobStatusSchema>;
export type JobKind = z.infer<typeof jobKindSchema>;
export type Untrained = z.infer<typeof untrainedSchema>;
export type TrainingJob = z.infer<typeof trainingJobSchema>;
