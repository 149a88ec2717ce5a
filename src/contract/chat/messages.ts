import { z } from 'zod';
import { list, optional, text, tokenList } from '../bounded.ts';
import { chatLimits, requestLimits } from '../limits.ts';
import { toolCallSchema } from './tools.ts';

export const textPartSchema = z
  .strictObject({ type: z.literal('text'), text: text() })
  .meta({ id: 'TextPart' });
export const refusalPartSchema = z
  .strictObject({ type: z.literal('refusal'), refusal: text() })
  .meta({ id: 'RefusalPart' });

const unsupportedPart = ({ input }: { input?: unknown }): string => {
  const type = typeof input === 'object' && input !== null && 'type' in input ? input.type : undefined;
  return typeof type === 'string'
    ? `parts of type ${JSON.stringify(type.slice(0, 100))} are not supported: the models read only text. Send the part as text or leave it out`
    : 'a content part must be an object with a type, such as {"type":"text","text":"..."}';
};

const parts = list(
  z.discriminatedUnion('type', [textPartSchema], { error: unsupportedPart }),
  chatLimits.parts,
);
const annotations = optional(list(z.unknown())).describe(
  'As in a response. Ignored: no template shows them.',
);
const addedByClient = optional(z.unknown()).describe(
  'Some clients add it to replies and send it back. Ignored.',
);
const copied = optional(z.unknown()).describe(
  "Some clients repeat the fields of a reply's message in its text. Ignored: the message itself has them.",
);
const assistantTextSchema = textPartSchema.extend({
  annotations,
  role: copied,
  refusal: copied,
  reasoning: copied,
  reasoning_content: copied,
  tool_calls: copied,
  function_call: copied,
  audio: copied,
  parsed: copied,
  provider_specific_fields: copied,
});
const assistantParts = list(
  z.discriminatedUnion('type', [assistantTextSchema, refusalPartSchema], { error: unsupportedPart }),
  chatLimits.parts,
);
const content = z.union([text(), parts]);
const name = optional(text(requestLimits.name)).describe(
  'Name of the speaker, to distinguish several with the same role. The chat template writes it before the content.',
);

export const assistantMessageSchema = z
  .strictObject({
    role: z.literal('assistant'),
    content: optional(z.union([text(), assistantParts])),
    name,
    refusal: optional(text()).describe('Replaces the content of a message without content.'),
    reasoning: optional(text()).describe('The reasoning before the content.'),
    reasoning_content: optional(text()).describe(
      'Another name for reasoning. If both are sent, they must be equal.',
    ),
    tool_calls: optional(list(toolCallSchema, chatLimits.calls)),
    function_call: optional(z.object({ name: text(requestLimits.name), arguments: text() })).describe(
      'Deprecated: a single call, for a message without tool_calls.',
    ),
    audio: optional(z.unknown()).describe('Refused: the models read only text.'),
    annotations,
    parsed: addedByClient,
    provider_specific_fields: addedByClient,
    token_ids: optional(tokenList()).describe(
      'The ids that were sampled for this message, as its choice contained them. The prompt contains them unchanged instead of the rest of the message. Without them the text is tokenized again, which may give other ids.',
    ),
  })
  .meta({ id: 'AssistantMessage' });

export const toolMessageSchema = z
  .strictObject({
    role: z.literal('tool'),
    content,
    tool_call_id: text(requestLimits.name),
    name,
  })
  .meta({ id: 'ToolMessage' });
export const functionMessageSchema = z
  .strictObject({ role: z.literal('function'), content: optional(text()), name: text(requestLimits.name) })
  .meta({
    id: 'FunctionMessage',
    description: 'Deprecated: the result of a function, identified by its name.',
  });
const plainMessage = <Role extends 'developer' | 'system' | 'user'>(role: Role) =>
  z.strictObject({ role: z.literal(role), content, name });
export const developerMessageSchema = plainMessage('developer').meta({ id: 'DeveloperMessage' });
export const systemMessageSchema = plainMessage('system').meta({ id: 'SystemMessage' });
export const userMessageSchema = plainMessage('user').meta({ id: 'UserMessage' });

const knownMessage = z.discriminatedUnion('role', [
  developerMessageSchema,
  systemMessageSchema,
  userMessageSchema,
  assistantMessageSchema,
  toolMessageSchema,
  functionMessageSchema,
]);

const knownRoles: readonly string[] = ['developer', 'system', 'user', 'assistant', 'tool', 'function'];

type FieldsOf<Message> = Message extends unknown ? keyof Message : never;
/** Declares the other variants' fields as absent, so that checking a message's role still narrows its type. */
type Generic<Own, Known> = Own & { [Field in Exclude<FieldsOf<Known>, keyof Own>]?: undefined };

export const otherMessageSchema = z
  .strictObject({
    role: z
      .string()
      .min(1)
      .max(chatLimits.role)
      .refine((role) => !knownRoles.includes(role), {
        error: 'has its own message format',
        abort: true,
        params: { discriminator: true },
      })
      .describe('Any other role.')
      .meta({ not: { enum: knownRoles } }),
    content,
    name,
  })
  .meta({ id: 'OtherMessage' });

/** A message with any other role. The chat template decides what the role means. */
export const genericMessage: z.ZodType<
  Generic<z.output<typeof otherMessageSchema>, z.output<typeof knownMessage>>,
  Generic<z.input<typeof otherMessageSchema>, z.input<typeof knownMessage>>
> = otherMessageSchema;

export const messageSchema = z.union([knownMessage, genericMessage]).meta({ id: 'Message' });

/** A message as a client sends it. */
export type Message = z.input<typeof messageSchema>;
/** A parsed message: `null` has become `undefined`. */
export type ParsedMessage = z.output<typeof messageSchema>;
