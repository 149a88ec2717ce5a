import { z } from 'zod';
import type { ChatCompletionRequest, Tool } from '../../contract/index.ts';
import { optional, refusedChatFields } from '../../contract/index.ts';
import { invalid, unsupported } from '../endpoint-error.ts';
import { asFields, checkNames, type Fields, parse } from '../read-fields.ts';

const functionTool = z.object({
  name: z.string(),
  description: optional(z.string()),
  parameters: optional(z.record(z.string(), z.unknown())),
  strict: optional(z.boolean()),
});

const textFormat = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text') }),
  z.strictObject({ type: z.literal('json_object') }),
  z.strictObject({
    type: z.literal('json_schema'),
    name: z.string(),
    schema: z.record(z.string(), z.unknown()),
    description: optional(z.string()),
    strict: optional(z.boolean()),
  }),
]);

const responseBody = z.object({
  model: optional(z.string()),
  input: optional(z.union([z.string(), z.array(z.unknown())])),
  instructions: optional(z.string()),
  previous_response_id: optional(z.string()),
  max_output_tokens: optional(z.number().int().min(1)),
  temperature: optional(z.number()),
  top_p: optional(z.number()),
  tools: optional(z.array(z.looseObject({ type: z.string() }))),
  tool_choice: optional(
    z.union([
      z.enum(['none', 'auto', 'required']),
      z.looseObject({
        type: z.string(),
        name: optional(z.string()),
        mode: optional(z.enum(['auto', 'required'])),
        tools: optional(z.array(z.looseObject({ type: z.string(), name: optional(z.string()) }))),
      }),
    ]),
  ),
  parallel_tool_calls: optional(z.boolean()),
  text: optional(z.strictObject({ format: optional(textFormat), verbosity: optional(z.string()) })),
  reasoning: optional(
    z.strictObject({
      effort: optional(z.enum(['none', 'minimal', 'low', 'medium', 'high'])),
      summary: optional(z.string()),
      generate_summary: optional(z.string()),
    }),
  ),
  include: optional(z.array(z.string())),
  store: optional(z.boolean()),
  stream: optional(z.boolean()),
  stream_options: optional(z.strictObject({ include_obfuscation: optional(z.boolean()) })),
  metadata: optional(z.record(z.string(), z.string())),
  user: optional(z.string()),
  service_tier: optional(z.enum(['auto', 'default'])),
});

export type ResponseBody = z.output<typeof responseBody>;

const known: ReadonlySet<string> = new Set(Object.keys(responseBody.shape));
const remove = 'Remove it.';
const remedies = {
  background: 'No reply is made in the background. Remove it, or pass false.',
  conversation: 'Continue a reply with `previous_response_id`, or send the items.',
  prompt: 'Templates are not stored here. Send `instructions` and `input`.',
  truncation: 'Send fewer items. The only value is "disabled".',
  context_management: 'Send fewer items.',
  max_tool_calls: 'It counts calls of built-in tools, which do not exist here.',
  top_logprobs: 'Use chat completions for log-probabilities.',
  moderation: remove,
  image: remove,
  access_programs: remove,
  n: 'Each call samples one reply. Make several calls.',
};

/** Parses a Responses request of an OpenAI client. @throws EndpointError that names the field. */
export function readResponseBody(body: unknown): ResponseBody {
  const read = parse(responseBody, checkNames(asFields(body), known, remedies));
  const { text, include = [], stream_options, stream, tools, tool_choice } = read;
  if (text?.verbosity !== undefined && text.verbosity !== 'medium')
    throw unsupported('text.verbosity', refusedChatFields.verbosity);
  for (const field of include)
    if (field !== 'reasoning.encrypted_content')
      throw unsupported('include', `"${field}" is not supported; only "reasoning.encrypted_content" is.`);
  if (stream_options && !stream) throw invalid('stream_options', 'needs `stream: true`.');
  if (!tools?.length && tool_choice !== undefined && tool_choice !== 'auto' && tool_choice !== 'none')
    throw invalid('tool_choice', 'needs `tools`.');
  return read;
}

/** The fields of a chat request for this request, without the prompt. */
export function chatSettings(body: ResponseBody) {
  const tools = body.tools?.length ? body.tools.map(toTool) : undefined;
  const { effort } = body.reasoning ?? {};
  const settings: Omit<ChatCompletionRequest, 'messages' | 'model' | 'seed' | 'stream'> = {
    return_token_ids: true,
    temperature: body.temperature,
    top_p: body.top_p,
    max_completion_tokens: body.max_output_tokens,
    // Without this field the reply has no reasoning.
    reasoning_effort: effort === 'none' ? undefined : effort,
    response_format: toResponseFormat(body.text?.format),
    metadata: body.metadata,
    user: body.user,
    service_tier: body.service_tier,
    ...(tools
      ? { tools, tool_choice: toToolChoice(body.tool_choice), parallel_tool_calls: body.parallel_tool_calls }
      : {}),
  };
  return { tools, settings };
}

function toTool(tool: Fields, index: number): Tool {
  if (tool.type !== 'function')
    throw unsupported(`tools.${index}.type`, `It is "${String(tool.type)}". Pass functions.`);
  if (tool.defer_loading) throw unsupported(`tools.${index}.defer_loading`, 'All tools are in the prompt.');
  const { name, description, parameters, strict } = parse(functionTool, tool, `tools.${index}`);
  return { type: 'function', function: { name, description, parameters, strict } };
}

function toToolChoice(choice: ResponseBody['tool_choice']): ChatCompletionRequest['tool_choice'] {
  // `auto` is the default: some services reject the field.
  if (choice === undefined || choice === 'auto') return undefined;
  if (typeof choice === 'string') return choice;
  if (choice.type === 'function' && choice.name !== undefined)
    return { type: 'function', function: { name: choice.name } };
  if (choice.type === 'allowed_tools' && choice.mode && choice.tools?.length)
    return {
      type: 'allowed_tools',
      allowed_tools: { mode: choice.mode, tools: choice.tools.map(toNamedTool) },
    };
  throw unsupported('tool_choice', `It is of type "${choice.type}". Name a function, or pass fewer tools.`);
}

function toNamedTool({ type, name }: { type: string; name?: string | undefined }, index: number) {
  if (type === 'function' && name !== undefined) return { type, function: { name } } as const;
  throw unsupported(`tool_choice.tools.${index}`, `It is of type "${type}". Name functions.`);
}

function toResponseFormat(
  format: z.output<typeof textFormat> | undefined,
): ChatCompletionRequest['response_format'] {
  if (!format || format.type === 'text') return undefined;
  if (format.type === 'json_object') return format;
  const { name, schema, description, strict } = format;
  return { type: 'json_schema', json_schema: { name, schema, description, strict } };
}
