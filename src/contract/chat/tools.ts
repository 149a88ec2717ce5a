import { z } from 'zod';
import { json, list, optional, text } from '../bounded.ts';
import { chatLimits, requestLimits } from '../limits.ts';

export const jsonSchemaSchema = json(chatLimits.schema);

export const toolSchema = z
  .strictObject({
    type: z.literal('function'),
    function: z.strictObject({
      name: z
        .string()
        .regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, underscores or hyphens'),
      description: optional(text(chatLimits.toolDescription)),
      parameters: optional(jsonSchemaSchema),
      strict: optional(z.boolean()).describe('No effect: calls always match the parameters.'),
    }),
  })
  .meta({ id: 'Tool' });

export const namedToolChoiceSchema = z
  .strictObject({
    type: z.literal('function'),
    function: z.strictObject({ name: text(requestLimits.name) }),
  })
  .meta({ id: 'NamedToolChoice' });

export const allowedToolsChoiceSchema = z
  .strictObject({
    type: z.literal('allowed_tools'),
    allowed_tools: z.strictObject({
      mode: z
        .enum(['auto', 'required'])
        .describe('auto: the reply may call tools. required: it calls at least one.'),
      tools: list(namedToolChoiceSchema, chatLimits.tools)
        .min(1)
        .describe('The tools that may be called, by name.'),
    }),
  })
  .meta({ id: 'AllowedToolsChoice' });

export const toolChoiceModeSchema = z
  .enum(
    ['none', 'auto', 'required'],
    'must be "none", "auto", "required", {"type":"function","function":{"name":"..."}} or {"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"..."}}]}}, where mode may also be "required"',
  )
  .meta({ id: 'ToolChoiceMode' });

export const toolChoiceSchema = z
  .union([
    toolChoiceModeSchema,
    z.discriminatedUnion('type', [namedToolChoiceSchema, allowedToolsChoiceSchema]),
  ])
  .meta({
    id: 'ToolChoice',
    description:
      'none: no tool call. auto (default if there are tools): the reply may call tools. required: at least one call. A named function is called exactly once, without other text. allowed_tools: its mode applied only to the named tools; the prompt still shows all tools.',
  });

export const toolCallSchema = z
  .object({
    id: text(requestLimits.name),
    type: z.literal('function'),
    /** `arguments` is the text that the model wrote: JSON if the call was constrained, otherwise any text. */
    function: z.object({ name: text(requestLimits.name), arguments: text() }),
  })
  .meta({ id: 'ToolCall' });

export type Tool = z.input<typeof toolSchema>;
export type ToolChoice = z.infer<typeof toolChoiceSchema>;
export type ToolCall = z.infer<typeof toolCallSchema>;
