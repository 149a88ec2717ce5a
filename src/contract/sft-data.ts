import { z } from 'zod';
import { list, optional } from './bounded.ts';
import { reasoningEffortSchema } from './chat/answer-fields.ts';
import {
  assistantMessageSchema,
  developerMessageSchema,
  functionMessageSchema,
  genericMessage,
  type ParsedMessage,
  systemMessageSchema,
  toolMessageSchema,
  userMessageSchema,
} from './chat/messages.ts';
import { responseFormatSchema, structuredOutputsSchema } from './chat/structured-outputs.ts';
import { type Tool, type ToolChoice, toolChoiceSchema, toolSchema } from './chat/tools.ts';
import { chatLimits } from './limits.ts';

export const sftAssistantMessageSchema = assistantMessageSchema
  .extend({
    weight: optional(z.literal([0, 1], { error: 'must be 0 (context alone) or 1 (trains)' })).describe(
      'As in lines of OpenAI: 0 makes the message context, whose tokens do not train. Default 1.',
    ),
  })
  .meta({ id: 'SftAssistantMessage' });

export const sftMessageSchema = z
  .union([
    z.discriminatedUnion('role', [
      developerMessageSchema,
      systemMessageSchema,
      userMessageSchema,
      sftAssistantMessageSchema,
      toolMessageSchema,
      functionMessageSchema,
    ]),
    genericMessage,
  ])
  .meta({ id: 'SftMessage' });

/** Whether a message is the assistant's and not context alone. */
const isTrained = (message: z.output<typeof sftMessageSchema>): boolean =>
  message.role === 'assistant' && !('weight' in message && message.weight === 0);

/**
 * The positions of the messages of a line that train.
 * @param which All assistant messages without the weight 0, or the last of these.
 */
export function trainedMessages({ messages }: ParsedSftExample, which: 'all' | 'last'): number[] {
  const trained = messages.flatMap((message, index) => (isTrained(message) ? [index] : []));
  return which === 'all' ? trained : trained.slice(-1);
}

/**
 * One line of supervised training data: a conversation that ends in an assistant message. Every assistant message
 * without the `weight` 0 trains, including its `reasoning`. Added by us: `response_format`, `structured_outputs`, `tool_choice`,
 * `parallel_tool_calls` and `reasoning_effort` constrain the replies as they do in a chat request, and the loss is
 * computed under that constraint. With a `reasoning_effort`, every assistant message trains with its reasoning, which
 * is empty if it has none. With `none`, no message may have reasoning.
 */
export const sftExampleSchema = z
  .strictObject({
    messages: list(sftMessageSchema, chatLimits.messages).min(1),
    tools: optional(list(toolSchema, chatLimits.tools)),
    tool_choice: optional(toolChoiceSchema),
    parallel_tool_calls: optional(z.boolean()),
    reasoning_effort: optional(reasoningEffortSchema).describe(
      'Default: "high" if a message has reasoning, otherwise "none". "none" is refused if a message has reasoning.',
    ),
    response_format: optional(responseFormatSchema),
    structured_outputs: optional(structuredOutputsSchema),
  })
  .refine((example) => example.messages.at(-1)?.role === 'assistant', {
    path: ['messages'],
    message: 'the last message must be an assistant message',
  })
  .refine((example) => example.messages.at(-1)?.role !== 'assistant' || example.messages.some(isTrained), {
    path: ['messages'],
    message:
      'every assistant message has weight 0, so nothing trains: leave the line out, or give one of them weight 1',
  })
  .superRefine((example, context) => {
    for (const { path, name } of callsIn(example.messages)) {
      const message = problemOf(name, example);
      if (message !== null)
        context.addIssue({ code: 'custom', path: ['messages', ...path], message, input: name });
    }
    if (example.reasoning_effort !== 'none') return;
    for (const [index, message] of example.messages.entries())
      if (hasReasoning(message))
        context.addIssue({
          code: 'custom',
          path: ['messages', index],
          message:
            'has reasoning, but reasoning_effort is "none": leave out reasoning_effort or the reasoning',
        });
  })
  .meta({ id: 'SftExample' });

const foreignForms: Readonly<Record<string, string>> = {
  conversations:
    'ShareGPT\'s form: write `messages`, with `role` for `from` (`human` is "user", `gpt` is "assistant") and `content` for `value`',
  instruction:
    "Alpaca's form: write `messages`, with the instruction and its input as the user's and the output as the assistant's",
  prompt:
    "a prompt and its completion: write `messages`, with the prompt as the user's and the completion as the assistant's",
  text: 'a text without roles: write `messages`, because replies alone are trained on',
  preferred_output: 'a pair of replies: write `messages` that end in the preferred one',
  chosen: 'a pair of replies: write `messages` that end in the chosen one',
  functions: 'the older form of tools: write `tools`, each as {"type": "function", "function": {...}}',
};

/** A field of a line in the form of other programs, and what to do with it. */
interface ForeignField {
  path: (string | number)[];
  value: unknown;
  remedy: string;
}

const isGiven = (value: unknown) => value !== undefined && value !== null;

const anyFields = z.record(z.string(), z.unknown());
/** The fields of an object; none of any other value. */
const fieldsOf = (value: unknown) => anyFields.safeParse(value).data ?? {};

/** The field that shows a line to be in the form of other programs; null if there is none. */
export function foreignFieldOf(example: unknown): ForeignField | null {
  const line = fieldsOf(example);
  for (const [field, form] of Object.entries(foreignForms))
    if (isGiven(line[field])) return { path: [field], value: line[field], remedy: `is ${form}` };
  const { tools, messages } = line;
  if (typeof tools === 'string')
    return { path: ['tools'], value: tools, remedy: 'is a text: write the list itself' };
  for (const [index, message] of (Array.isArray(messages) ? messages : []).entries()) {
    const { role, weight } = fieldsOf(message);
    if (role !== 'assistant' && isGiven(weight))
      return {
        path: ['messages', index, 'weight'],
        value: weight,
        remedy: 'is for assistant messages, because no other message trains: leave it out',
      };
  }
  return null;
}

function hasReasoning(message: ParsedMessage): boolean {
  const texts = [
    'reasoning' in message && message.reasoning,
    'reasoning_content' in message && message.reasoning_content,
  ];
  return texts.some(Boolean);
}

/** The tool calls in the messages, with their paths. */
function callsIn(messages: ParsedMessage[]): { path: (string | number)[]; name: string }[] {
  return messages.flatMap((message, index) => {
    const calls = 'tool_calls' in message ? (message.tool_calls ?? []) : [];
    const single = 'function_call' in message ? message.function_call : undefined;
    return [
      ...calls.map((call, position) => ({
        path: [index, 'tool_calls', position],
        name: call.function.name,
      })),
      ...(single ? [{ path: [index, 'function_call'], name: single.name }] : []),
    ];
  });
}

/** Why a call of this name could not have been sampled; null if it could. */
function problemOf(
  name: string,
  { tools = [], tool_choice: choice }: { tools?: Tool[] | undefined; tool_choice?: ToolChoice | undefined },
): string | null {
  if (choice === 'none')
    return `calls ${JSON.stringify(name)} , but tool_choice is "none", which forbids calls: leave out tool_choice or the call`;
  if (typeof choice === 'object') {
    const allowed = choice.type === 'function' ? [choice] : choice.allowed_tools.tools;
    const callable = allowed.map((tool) => tool.function.name);
    if (!callable.includes(name))
      return `calls ${JSON.stringify(name)} , but tool_choice names ${callable.map((one) => JSON.stringify(one)).join(', ')}: leave out tool_choice or the call`;
  }
  const names = tools.map((tool) => tool.function.name);
  if (names.includes(name)) return null;
  const known = names.length > 0 ? `has only ${names.join(', ')}` : 'is empty or absent';
  return `calls ${JSON.stringify(name)}, which is not a tool of this line: define it in tools, which ${known}`;
}

/** Answer to an upload. `url` identifies the data by its content; pass it as `training_data_url`. */
export const uploadSchema = z
  .object({ id: z.string(), url: z.string(), sha256: z.string(), bytes: z.number().int() })
  .meta({ id: 'Upload' });

export type SftExample = z.input<typeof sftExampleSchema>;
export type ParsedSftExample = z.output<typeof sftExampleSchema>;
export type Upload = z.infer<typeof uploadSchema>;
