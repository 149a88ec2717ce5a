import { z } from 'zod';
import { list, text, tokenList } from '../bounded.ts';
import { chatLimits, requestLimits } from '../limits.ts';
import { optional } from '../optional.ts';
import { toolCallSchema } from './tools.ts';

const textPart = z.strictObject({ type: z.literal('text'), text: text() });
const refusalPart = z.strictObject({ type: z.literal('refusal'), refusal: text() });

const unsupportedPart = ({ input }: { input?: unknown }): string => {
  const type = typeof input === 'object' && input !== null && 'type' in input ? input.type : undefined;
  return typeof type === 'string'
    ? `parts of type ${JSON.stringify(type.slice(0, 100))} are not supported here: the models read text, so give the part as text or leave it out`
    : 'a part of a content is an object with a type, such as {"type":"text","text":"..."}';
};

const parts = list(z.discriminatedUnion('type', [textPart], { error: unsupportedPart }), chatLimits.parts);
const assistantParts = list(
  z.discriminatedUnion('type', [textPart, refusalPart], { error: unsupportedPart }),
  chatLimits.parts,
);
const content = z.union([text(), parts]);
const name = optional(text(requestLimits.name)).describe(
  'Who speaks, where several have the same role; the chat template shows it before the content.',
);

const assistantMessage = z.strictObject({
  role: z.literal('assistant'),
  content: optional(z.union([text(), assistantParts])),
  name,
  refusal: optional(text()).describe('Stands as the content of a message that has none.'),
  reasoning: optional(text()).describe('What was thought before the content.'),
  reasoning_content: optional(text()).describe('Another name of reasoning; given both, they must be equal.'),
  tool_calls: optional(list(toolCallSchema, chatLimits.calls)),
  function_call: optional(z.object({ name: text(requestLimits.name), arguments: text() })).describe(
    'Deprecated: the only call of a message without tool_calls.',
  ),
  audio: optional(z.unknown()).describe('Refused: the models read text.'),
  annotations: optional(list(z.unknown())).describe('As a response carried them; no template shows them.'),
  token_ids: optional(tokenList()).describe(
    'The ids that were sampled for this message, as its choice carried them. They stand in the prompt as they are, in place of everything else of the message; without them the text is tokenized again, which need not give the same ids.',
  ),
});

const toolMessage = z.strictObject({
  role: z.literal('tool'),
  content,
  tool_call_id: text(requestLimits.name),
  name,
});
const functionMessage = z
  .strictObject({ role: z.literal('function'), content: optional(text()), name: text(requestLimits.name) })
  .describe('Deprecated: what a function returned, by its name.');
const plainMessage = (role: 'developer' | 'system' | 'user') =>
  z.strictObject({ role: z.literal(role), content, name });

const knownMessage = z.discriminatedUnion('role', [
  plainMessage('developer'),
  plainMessage('system'),
  plainMessage('user'),
  assistantMessage,
  toolMessage,
  functionMessage,
]);

const knownRoles: readonly string[] = ['developer', 'system', 'user', 'assistant', 'tool', 'function'];

type FieldsOf<Message> = Message extends unknown ? keyof Message : never;
/** Knows the other variants' fields as absent, so that a look at a message's role still tells its fields. */
type Generic<Own, Known> = Own & { [Field in Exclude<FieldsOf<Known>, keyof Own>]?: undefined };

const genericForm = z.strictObject({
  role: z
    .string()
    .min(1)
    .max(chatLimits.role)
    .refine((role) => !knownRoles.includes(role), {
      error: 'has fields of its own',
      abort: true,
      params: { discriminator: true },
    })
    .describe('Any other role.')
    .meta({ not: { enum: knownRoles } }),
  content,
  name,
});

/** A role that is none of the known ones. What it means is up to the chat template. */
const genericMessage: z.ZodType<
  Generic<z.output<typeof genericForm>, z.output<typeof knownMessage>>,
  Generic<z.input<typeof genericForm>, z.input<typeof knownMessage>>
> = genericForm;

export const messageSchema = z.union([knownMessage, genericMessage]).meta({ id: 'Message' });

/** A message as a client writes it. */
export type Message = z.input<typeof messageSchema>;
/** A message as the service reads it: `null` is gone. */
export type ParsedMessage = z.output<typeof messageSchema>;
