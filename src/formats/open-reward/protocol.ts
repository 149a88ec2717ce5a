import { z } from 'zod';

/*
 * Answers of a server of the Open Reward Standard, as `openreward` 0.1.167 for Python sends them, and requests as its
 * server takes them. Of answers, fields that older servers lack have a default and unknown fields are dropped.
 */

const textBlock = z.object({ type: z.literal('text'), text: z.string() });
const imageBlock = z.object({ type: z.literal('image'), data: z.string(), mimeType: z.string() });
const blockSchema = z.discriminatedUnion('type', [textBlock, imageBlock]);
export type Block = z.output<typeof blockSchema>;

export const promptSchema = z.array(blockSchema);

const messageBlockSchema = z.discriminatedUnion('type', [
  textBlock,
  imageBlock,
  z.object({ type: z.literal('reasoning'), text: z.string() }),
  z.object({
    type: z.literal('tool_call'),
    id: z.string(),
    name: z.string(),
    input: z.record(z.string(), z.unknown()),
  }),
  z.object({
    type: z.literal('tool_result'),
    tool_call_id: z.string(),
    blocks: z.array(blockSchema),
    is_error: z.boolean().optional(),
  }),
]);

export const messagesSchema = z.array(
  z.object({ role: z.enum(['system', 'user', 'assistant']), blocks: z.array(messageBlockSchema) }),
);
export type ConversationMessage = z.output<typeof messagesSchema>[number];

export const environmentsSchema = z.array(z.string());
export const splitsSchema = z.array(z.object({ name: z.string(), type: z.string().optional() }));
export const taskCountSchema = z.object({ num_tasks: z.int().nonnegative() });

export const toolsSchema = z.object({
  tools: z.array(
    z.object({
      name: z.string(),
      description: z.string().default(''),
      input_schema: z.record(z.string(), z.unknown()).nullish(),
    }),
  ),
  /** Gets the text of a reply without tool calls, in its argument, and ends the episode. */
  terminal_tool: z.object({ name: z.string(), arg: z.string().nullish() }).nullish(),
});
export type ToolList = z.output<typeof toolsSchema>;

export const callResultSchema = z.discriminatedUnion('ok', [
  z.object({
    ok: z.literal(true),
    output: z.object({
      blocks: z.array(blockSchema),
      reward: z.number().nullish(),
      finished: z.boolean().default(false),
      metadata: z.record(z.string(), z.unknown()).nullish(),
    }),
  }),
  z.object({ ok: z.literal(false), error: z.string(), reason: z.string().nullish() }),
]);
export type CallResult = z.output<typeof callResultSchema>;

const splitField = z.string();
export const splitRequestSchema = z.strictObject({ split: splitField });
export const taskRequestSchema = z.strictObject({ split: splitField, index: z.int() });
export const taskRangeRequestSchema = z.strictObject({
  split: splitField,
  start: z.int().nullish(),
  stop: z.int().nullish(),
});

/** Begins an episode of a task: one that is given whole, or one of a split. */
export const createRequestSchema = z
  .strictObject({
    env_name: z.string().nullish(),
    task_spec: z.unknown().optional(),
    split: z.string().nullish(),
    index: z.int().nullish(),
    toolset_name: z.string().nullish(),
  })
  .refine(
    ({ task_spec: task, split, index }) =>
      (task ?? null) === null ? split != null && index != null : split == null && index == null,
    'give either task_spec, or both split and index',
  );
export type CreateRequest = z.output<typeof createRequestSchema>;

export const callRequestSchema = z.strictObject({
  name: z.string(),
  input: z.record(z.string(), z.unknown()),
  /** Names a call that runs already, to be told its result. */
  task_id: z.string().nullish(),
});

/** The secrets of a session, in the header `x-secrets` as JSON in base64. */
export const secretsSchema = z.record(z.string(), z.unknown());
