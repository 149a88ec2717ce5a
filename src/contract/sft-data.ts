import { z } from 'zod';
import { messageSchema } from './chat/messages.ts';
import { responseFormatSchema, structuredOutputsSchema } from './chat/structured-outputs.ts';
import { toolChoiceSchema, toolSchema } from './chat/tools.ts';
import { optional } from './optional.ts';

/**
 * One line of supervised training data: a conversation that ends in an assistant message; every assistant
 * message trains, its `reasoning` included. Added by us: `response_format`, `structured_outputs`, `tool_choice`,
 * `parallel_tool_calls` and `reasoning_effort` say, as they do in a chat request, which constraint the replies are
 * sampled under, and the loss is then taken under that same constraint. Under a `reasoning_effort` every assistant
 * message trains with its reasoning, which is empty where it has none.
 */
export const sftExampleSchema = z
  .strictObject({
    messages: z.array(messageSchema).min(1),
    tools: optional(z.array(toolSchema)),
    tool_choice: optional(toolChoiceSchema),
    parallel_tool_calls: optional(z.boolean()),
    reasoning_effort: optional(z.enum(['low', 'medium', 'high'])).describe(
      'Default: "high" where a message has reasoning, else none.',
    ),
    response_format: optional(responseFormatSchema),
    structured_outputs: optional(structuredOutputsSchema),
  })
  .refine((example) => example.messages.at(-1)?.role === 'assistant', {
    path: ['messages'],
    message: 'the last message must be an assistant message',
  })
  .meta({ id: 'SftExample' });

/** Answer to an upload. `url` names the data by its content and goes into `training_data_url`. */
export const uploadSchema = z
  .object({ id: z.string(), url: z.string(), sha256: z.string(), bytes: z.number().int() })
  .meta({ id: 'Upload' });

export type SftExample = z.input<typeof sftExampleSchema>;
export type ParsedSftExample = z.output<typeof sftExampleSchema>;
export type Upload = z.infer<typeof uploadSchema>;
