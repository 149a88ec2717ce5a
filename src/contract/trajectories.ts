import { z } from 'zod';
import { messageSchema } from './chat/messages.ts';
import { choiceSchema } from './chat/response.ts';
import { toolSchema } from './chat/tools.ts';
import { optional } from './optional.ts';

const metrics = z.record(z.string(), z.union([z.number(), z.boolean(), z.null()]));
const metadata = z.record(z.string(), z.union([z.number(), z.string(), z.boolean(), z.null()]));

/** Messages are context; choices, which have a `message`, are what the policy sampled and what trains. */
const messagesAndChoices = z.array(z.union([choiceSchema, messageSchema]));

export const historySchema = z
  .object({ messages_and_choices: messagesAndChoices, tools: optional(z.array(toolSchema)) })
  .meta({ id: 'History' });

export const trajectorySchema = z
  .object({
    messages_and_choices: messagesAndChoices,
    tools: optional(z.array(toolSchema)),
    /** Further conversations of the same rollout, each tokenized on its own; they share the reward. */
    additional_histories: optional(z.array(historySchema)),
    reward: z.number(),
    initial_policy_version: optional(z.number().int()),
    final_policy_version: optional(z.number().int()),
    metrics: optional(metrics),
    auto_metrics: optional(metrics),
    metadata: optional(metadata),
    logs: optional(z.array(z.string())),
    start_time: optional(z.iso.datetime({ offset: true, local: true })),
  })
  .meta({ id: 'Trajectory' });

export const trajectoryGroupSchema = z
  .object({
    trajectories: z.array(trajectorySchema),
    metadata: optional(metadata),
    metrics: optional(metrics),
    logs: optional(z.array(z.string())),
    exceptions: optional(
      z.array(z.object({ type: z.string(), message: z.string(), traceback: optional(z.string()) })),
    ),
  })
  .meta({ id: 'TrajectoryGroup' });

export const logRequestSchema = z
  .object({
    model_id: optional(z.string()),
    split: z.string().min(1),
    trajectory_groups: z.array(trajectoryGroupSchema),
  })
  .meta({ id: 'LogRequest' });

/** Added by us: how much was taken. */
export const logResponseSchema = z
  .object({ split: z.string(), num_groups: z.number().int(), num_trajectories: z.number().int() })
  .meta({ id: 'LogResponse' });

/** Names end in `Body` because the harness has classes of these names. */
export type TrajectoryBody = z.input<typeof trajectorySchema>;
export type TrajectoryGroupBody = z.input<typeof trajectoryGroupSchema>;
export type HistoryBody = z.input<typeof historySchema>;
export type ParsedTrajectory = z.output<typeof trajectorySchema>;
export type ParsedTrajectoryGroup = z.output<typeof trajectoryGroupSchema>;
export type LogRequest = z.input<typeof logRequestSchema>;
export type LogResponse = z.infer<typeof logResponseSchema>;
