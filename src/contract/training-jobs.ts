import { z } from 'zod';
import { boundedNumber, list, numberList, optional, record, text } from './bounded.ts';
import { requestLimits, trainingLimits } from './limits.ts';
import { pageSchema } from './page.ts';
import { groupIds, trajectoryGroupSchema } from './trajectories.ts';

/**
 * The options of a reinforcement-learning job. Absent and `null` mean the default. `refusedConfigFields` lists names
 * that deployed clients send and this service refuses.
 */
export const rlConfigSchema = z
  .strictObject({
    learning_rate: optional(boundedNumber().positive()).describe(
      'Step size of Adam. Default: depends on the base model (an embedded model needs a far larger one than an adapter).',
    ),
    advantage_balance: optional(z.number().min(-1).max(1)).describe(
      'b from -1 to 1. Above 0, negative advantages are multiplied by (1 - b); below 0, positive ones by (1 + b). Default 0.',
    ),
    scale_rewards: optional(z.boolean()).describe(
      "Divide a group's advantages by its rewards' population standard deviation plus 1e-6. Default true.",
    ),
    normalize_advantages: optional(z.boolean()).describe(
      "Divide the batch's advantages, after advantage_balance, by the mean of |A| * w over its trainable tokens, where w is a token's weight scaled to mean 1. This is the mean of |A| over the trajectories that train. Default false.",
    ),
    ppo: optional(z.boolean()).describe("Use PPO's pessimistic clip instead of CISPO. Default false."),
    loss_fn: optional(z.enum(['cispo', 'ppo'])).describe(
      'The same setting by name. A value that contradicts ppo is refused. Default "ppo" if ppo is true, otherwise "cispo".',
    ),
    epsilon: optional(boundedNumber().min(0)).describe('Lower clip width. Default 1 (CISPO) or 0.2 (PPO).'),
    epsilon_high: optional(boundedNumber().min(0)).describe(
      'Upper clip width. Default 4 (CISPO) or epsilon (PPO).',
    ),
    mask_prob_ratio: optional(z.boolean()).describe(
      'Set ratios outside (1 - epsilon, 1 + epsilon_high) to zero before they are clipped. With CISPO and epsilon below 1, the clip then raises them to 1 - epsilon. Default false.',
    ),
    max_negative_advantage_importance_sampling_weight: optional(boundedNumber().positive()).describe(
      'Upper bound of the importance ratio of all tokens, whatever the sign of their advantage. Default: none.',
    ),
    vendor_k2_tau: optional(boundedNumber().min(0)).describe(
      'tau: subtracts tau * (log p now - log p when sampled), without its gradient, from the advantage of each token. Default 0.',
    ),
    precalculate_logprobs: optional(z.boolean()).describe(
      "Use the trainer's log-probabilities before the first update instead of the sampler's. Default false.",
    ),
    importance_sampling_level: optional(
      z.enum(['token', 'sequence', 'average', 'geometric_average']),
    ).describe(
      'Importance ratio of a token. token: its own ratio. sequence: exp of the mean log-ratio over the sampled tokens of its sequence. average and geometric_average: the arithmetic or geometric mean of both. A sequence is one history, or one choice with its own prompt. Default token.',
    ),
    truncated_importance_sampling: optional(boundedNumber().positive()).describe(
      "C: multiplies a token's loss by min(rho, C), where rho is its importance ratio before bound and mask. With precalculate_logprobs, rho is the ratio of the trainer before the first update to the sampler. Default: off.",
    ),
    kl_penalty_coef: optional(boundedNumber().min(0)).describe(
      "c: with k = the source's log-probability of a token minus the reference's, adds c * (mean of k over the batch's trainable tokens - k) to its advantage. Default 0.",
    ),
    kl_penalty_reference_step: optional(z.number().int().min(0)).describe(
      "The reference is this step's checkpoint of the model. Needs kl_penalty_coef. Default: the base model.",
    ),
    kl_penalty_reference_model: optional(text(requestLimits.model).min(1)).describe(
      "Added by us: a teacher. The reference is this model, named as in chat requests: a model, one of its checkpoints (newest without a step) or a base model, with the same vocabulary and on the same engine. Then -c * k is added to each token's advantage, without the mean of k, and groups with equal rewards train too. Needs kl_penalty_coef, and replaces kl_penalty_reference_step and kl_penalty_step_lag. Default: off.",
    ),
    kl_penalty_step_lag: optional(z.number().int().min(1)).describe(
      'n: the reference is the checkpoint n steps before the one that the job starts from, or step 0 if there are fewer. Needs kl_penalty_coef, and replaces kl_penalty_reference_step. Default: off.',
    ),
    kl_penalty_source: optional(z.enum(['current_learner', 'sample'])).describe(
      'The log-probabilities that the KL penalty compares with the reference. current_learner: computed with the weights being trained. sample: as the sampler reported them; needs kl_penalty_coef. Default current_learner.',
    ),
    entropy_coefficient: optional(boundedNumber().min(0)).describe(
      'Added by us: weight of an entropy bonus, computed over the tokens that were allowed at each position. Default 0.',
    ),
  })
  .superRefine((config, context) => {
    const refuse = (name: string, message: string) =>
      context.addIssue({ code: 'custom', path: [name], message });
    const { ppo, loss_fn: loss } = config;
    if (ppo !== undefined && loss !== undefined && ppo !== (loss === 'ppo'))
      refuse('loss_fn', `loss_fn "${loss}" contradicts ppo ${ppo}; send only one`);
    const { kl_penalty_reference_step: step, kl_penalty_step_lag: lag } = config;
    if (step !== undefined && lag !== undefined)
      refuse(
        'kl_penalty_step_lag',
        `names another reference than kl_penalty_reference_step ${step}; send only one`,
      );
    const other = step !== undefined ? 'kl_penalty_reference_step' : 'kl_penalty_step_lag';
    if (config.kl_penalty_reference_model !== undefined && (step ?? lag) !== undefined)
      refuse('kl_penalty_reference_model', `names another reference than ${other}; send only one`);
    if (config.kl_penalty_coef !== undefined) return;
    for (const name of [
      'kl_penalty_reference_step',
      'kl_penalty_reference_model',
      'kl_penalty_step_lag',
    ] as const)
      if (config[name] !== undefined) refuse(name, 'needs a KL penalty; also send kl_penalty_coef');
    if (config.kl_penalty_source === 'sample')
      refuse('kl_penalty_source', 'needs a KL penalty; also send kl_penalty_coef');
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
    trajectory_groups: optional(list(trajectoryGroupSchema, trainingLimits.groups).min(1)),
    groups: groupIds(1),
    experimental_config: optional(rlConfigSchema),
  })
  .meta({ id: 'CreateTrainingJobRequest' });

export const createJobResponseSchema = z.object({ id: z.uuid() }).meta({ id: 'CreateTrainingJobResponse' });

export const sftConfigSchema = z
  .strictObject({
    batch_size: optional(z.union([z.number().int().min(1), z.literal('auto')])).describe(
      'Conversations per gradient step. Default "auto": depends on the base model.',
    ),
    learning_rate: optional(
      z.union([
        boundedNumber().positive(),
        numberList(boundedNumber().positive(), trainingLimits.learningRates).min(1),
      ]),
    ).describe('One value, or one for each batch. Default: depends on the base model.'),
    assistant_turns: optional(z.enum(['all', 'last'])).describe(
      'The assistant messages that train. all: all messages of a conversation. last: only the last one, with the others as context. Default all.',
    ),
    metric_logging: optional(
      z.strictObject({
        enabled: optional(z.boolean()).describe(
          "Whether the checkpoint stores the job's last metrics. Default true. The job's events always contain them.",
        ),
        target_training_step: optional(z.number().int().min(0)).describe(
          'The step that the metrics are stored under. It must be the step of the checkpoint that the job creates. Another step is refused, or fails the job if earlier jobs in the queue created more or fewer checkpoints. Default: that step.',
        ),
      }),
    ).describe('There is no tracking service: the checkpoint stores the metrics.'),
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
        'no_signal: rewards do not differ within any group. no_decisions: they differ, but no reply with an advantage has a sampled token with an alternative; with a teacher, no reply has one.',
      ),
    message: z.string(),
    metrics: z
      .record(z.string(), z.number())
      .describe('Metrics of the groups, named as in gradient_step events.'),
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
        'Step of the checkpoint that the job created, or of the newest one if the job is untrained. Null until then.',
      ),
    untrained: untrainedSchema
      .nullable()
      .describe(
        'Why a successful job took no gradient step and created no checkpoint. Null for all other jobs. Also in the data of training_ended.',
      ),
  })
  .meta({ id: 'TrainingJob' });

export const trainingJobPageSchema = pageSchema(trainingJobSchema).meta({ id: 'TrainingJobPage' });

/** The tokens of a trajectory that a job trained on: an extension. */
export const trajectoryTokensSchema = z
  .object({
    id: z.string().describe('Number of the trajectory among those that trained, from 0.'),
    group: z.number().int().describe("Index in the job's `trajectory_groups` or `groups`."),
    trajectory: z.number().int().describe("Index in the group's `trajectories`."),
    choices: z.array(
      z.object({
        choice: z
          .number()
          .int()
          .describe('Number of the choice in the trajectory, from 0, over all its histories in order.'),
        logprobs: z
          .array(z.number().nullable())
          .describe(
            'For each token its log-probability under the weights before the update; null if it had no alternative.',
          ),
        clipped: z
          .array(z.number().int())
          .describe('Indices of the tokens whose loss a clip, cap, mask or truncation changed.'),
      }),
    ),
  })
  .meta({ id: 'TrajectoryTokens' });

export const trajectoryTokensPageSchema = pageSchema(trajectoryTokensSchema).meta({
  id: 'TrajectoryTokensPage',
});

export type RlConfig = z.input<typeof rlConfigSchema>;
export type ParsedRlConfig = z.output<typeof rlConfigSchema>;
export type CreateTrainingJobRequest = z.input<typeof createTrainingJobRequestSchema>;
export type CreateSftTrainingJobRequest = z.input<typeof createSftTrainingJobRequestSchema>;
export type JobStatus = z.infer<typeof jobStatusSchema>;
export type JobKind = z.infer<typeof jobKindSchema>;
export type Untrained = z.infer<typeof untrainedSchema>;
export type TrajectoryTokens = z.infer<typeof trajectoryTokensSchema>;
export type TrainingJob = z.infer<typeof trainingJobSchema>;
