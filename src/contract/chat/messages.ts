import { z } from 'zod';
import { optional } from '../optional.ts';
import { toolCallSchema } from './tools.ts';

const textPart = z.object({ type: z.literal('text'), text: z.string() });
const content = z.union([z.string(), z.array(textPart)]);
const name = optional(z.string());

const assistantMessage = z.object({
  role: z.literal('assistant'),
  content: optional(content),
  name,
  refusal: optional(z.string()),
  reasoning: optional(z.string()),
  reasoning_content: optional(z.string()),
  tool_calls: optional(z.array(toolCallSchema)),
  function_call: optional(z.object({ name: z.string(), arguments: z.string() })),
  /**
   * The ids that were sampled for this message, as its choice carried them. Where they are given they stand in
   * the prompt as they are; without them the text is tokenized again, which need not give the same ids.
   */
  token_ids: optional(z.array(z.number().int().min(0))),
});

const toolMessage = z.object({ role: z.literal('tool'), content, tool_call_id: z.string(), name });
const functionMessage = z.object({
  role: z.literal('function'),
  content: optional(z.string()),
  name: z.string(),
});
const plainMessage = (role: 'developer' | 'system' | 'user') =>
  z.object({ role: z.literal(role), content, name });

export const messageSchema = z
  .discriminatedUnion('role', [
    plainMessage('developer'),
    plainMessage('system'),
    plainMessage('user'),
    assistantMessage,
    toolMessage,
    functionMessage,
  ])
  .meta({ id: 'Message' });

/** A message as a client writes it. */
export type Message = z.input<typeof messageSchema>;
/** A message as the service reads it: `null` is gone. */
export type ParsedMessage = z.output<typeof messageSchema>;
