import { z } from 'zod';
import { boundedNumber, list, optional, record, text } from './bounded.ts';
import { messageSchema } from './chat/messages.ts';
import { choiceSchema } from './chat/response.ts';
import { toolSchema } from './chat/tools.ts';
import { chatLimits, requestLimits, trainingLimits } from './limits.ts';

const metrics = record(z.union([z.number(), z.boolean(), z.null()]), { entries: trainingLimits.metrics });
const metadata = record(z.union([z.number(), text(trainingLimits.metadataLength), z.boolean(), z.null()]), {
  entries: trainingLimits.metadata,
});

const logs = list(text(trainingLimits.logLength), trainingLimits.logs);

/** Messages are context. Choices, which have a `message`, are what the policy sampled and what trains. */
const messagesAndChoices = list(z.union([choiceSchema, messageSchema]), trainingLimits.messages);

export const historySchema = z
  .object({ messages_and_choices: messagesAndChoices, tools: optional(list(toolSchema, chatLimits.tools)) })
  .meta({ id: 'History' });

/**
 * Requests and responses as a client recorded them, by protocol. They are refused: each conversation would come in up
 * to four formats and be repeated in every exchange, while `messages_and_choices` and `additional_histories` hold it
 * once.
 */
// The OpenAPI document permits only nulls; some clients also send empty lists.
const exchanges = record(z.unknown(), { entries: trainingLimits.exchanges })
  .refine(
    (sent) =>
      Object.values(sent).every((list) => list === null || (Array.isArray(list) && list.length === 0)),
    'this service does not read recorded exchanges; send a conversation as messages_and_choices, with the choices of its responses among its messages, and further conversations as additional_histories',
  )
  .meta({ additionalProperties: { type: 'null' } });

export const trajectorySchema = z
  .object({
    exchanges: optional(exchanges).describe(
      'Refused unless its lists are empty: conversations are read from messages_and_choices and additional_histories.',
    ),
    messages_and_choices: messagesAndChoices,
    tools: optional(list(toolSchema, chatLimits.tools)),
    /** Further conversations of the same rollout, each tokenized on its own; they share the reward. */
    additional_histories: optional(list(historySchema, trainingLimits.histories)),
    reward: boundedNumber(),
    initial_policy_version: optional(z.number().int()),
    final_policy_version: optional(z.number().int()),
    metrics: optional(metrics),
    auto_metrics: optional(metrics),
    metadata: optional(metadata),
    logs: optional(logs),
    start_time: optional(z.iso.datetime({ offset: true, local: true }).max(trainingLimits.timestamp)),
  })
  .meta({ id: 'Trajectory' });

export const trajectoryGroupSchema = z
  .object({
    trajectories: list(trajectorySchema, trainingLimits.trajectories),
    metadata: optional(metadata),
    metrics: optional(metrics),
    logs: optional(logs),
    exceptions: optional(
      list(
        z.object({ type: text(requestLimits.name), message: text(), traceback: optional(text()) }),
        trainingLimits.exceptions,
      ),
    ),
  })
  .meta({ id: 'TrajectoryGroup' });

/** Added by us: what the service read in a group that it has stored. */
export const storedGroupSchema = z
  .object({
    id: z.string().describe('Name of the group for `groups` of a job or a log.'),
    num_trajectories: z.number().int(),
    num_sampled_tokens: z.number().int().describe('Tokens of all choices.'),
    num_trainable_tokens: z
      .number()
      .int()
      .describe('Those of them that can train: the others had no alternative, so they have no gradient.'),
  })
  .meta({ id: 'StoredGroup' });

/** Groups of a job or a log, either whole or by the ids of stored ones. */
export const groupIds = (minimum = 0) =>
  optional(list(text(trainingLimits.groupId).min(1), trainingLimits.groups).min(minimum)).describe(
    'Added by us: the ids of stored groups (POST /v1/preview/models/{model_id}/groups) of the same model, in place of `trajectory_groups`.',
  );

export const logRequestSchema = z
  .object({
    model_id: optional(text(requestLimits.name)),
    split: text(trainingLimits.split)
      .min(1)
      .refine((split) => split.isWellFormed(), 'must not contain half of a surrogate pair'),
    trajectory_groups: optional(list(trajectoryGroupSchema, trainingLimits.groups)),
    groups: groupIds(),
  })
  .meta({ id: 'LogRequest' });

/** Added by us: how many groups and trajectories were logged. */
export const logResponseSchema = z
  .object({ split: z.string(), num_groups: z.number().int(), num_trajectories: z.number().int() })
  .meta({ id: 'LogResponse' });

/** The names end in `Body` because the harness has classes with the plain names. */
export type TrajectoryBody = z.input<typeof trajectorySchema>;
export type TrajectoryGroupBody = z.input<typeof trajectoryGroupSchema>;
export type ParsedTrajectory = z.output<typeof trajectorySchema>;
export type StoredGroup = z.infer<typeof storedGroupSchema>;
export type LogRequest = z.input<typeof logRequestSchema>;
export type LogResponse = z.infer<typeof logResponseSchema>;
