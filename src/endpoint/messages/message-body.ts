import { z } from 'zod';
import type { ChatCompletionRequest, Tool } from '../../contract/index.ts';
import { optional } from '../../contract/index.ts';
import { isObject } from '../../util/json.ts';
import { EndpointError, invalid, unsupported } from '../endpoint-error.ts';
import { asFields, checkNames, type Fields, parse } from '../read-fields.ts';
import type { EndpointRequest } from '../session.ts';
import { readConversation } from './read-conversation.ts';

/** An agent's request, and the format of the reply. */
export interface ParsedMessageRequest {
  request: EndpointRequest;
  stream: boolean;
  /** Whether thinking blocks come without their text. */
  omitsThinking: boolean;
}

const content = z.union([z.string(), z.array(z.unknown())]);
const display = optional(z.enum(['summarized', 'omitted', 'updates']));

const format = optional(
  z.strictObject({ type: z.literal('json_schema'), schema: z.record(z.string(), z.unknown()) }),
);

const messageBody = z.object({
  model: optional(z.string()),
  messages: z.array(z.object({ role: z.enum(['user', 'assistant', 'system']), content })).min(1),
  system: optional(content),
  max_tokens: optional(z.number().int().min(1)),
  temperature: optional(z.number()),
  top_p: optional(z.number()),
  top_k: optional(z.number().int()),
  stop_sequences: optional(z.array(z.string())),
  stream: optional(z.boolean()),
  tools: optional(z.array(z.looseObject({ type: optional(z.string()) }))),
  tool_choice: optional(
    z.discriminatedUnion('type', [
      z.strictObject({ type: z.enum(['auto', 'any']), disable_parallel_tool_use: optional(z.boolean()) }),
      z.strictObject({
        type: z.literal('tool'),
        name: z.string(),
        disable_parallel_tool_use: optional(z.boolean()),
      }),
      z.strictObject({ type: z.literal('none') }),
    ]),
  ),
  thinking: optional(
    z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('enabled'), budget_tokens: z.number().int().min(1), display }),
      z.strictObject({ type: z.literal('adaptive'), display }),
      z.strictObject({ type: z.literal('disabled') }),
    ]),
  ),
  output_config: optional(z.strictObject({ effort: optional(z.enum(['low', 'medium', 'high'])), format })),
  output_format: format,
  metadata: optional(z.object({ user_id: optional(z.string()) })),
  context_management: optional(z.strictObject({ edits: optional(z.array(z.looseObject({}))) })),
  // These change the price and the speed at the provider, and not the reply.
  service_tier: optional(z.enum(['auto', 'standard_only'])),
  speed: optional(z.literal('standard')),
  cache_control: optional(z.unknown()),
  diagnostics: optional(z.unknown()),
});

type MessageBody = z.output<typeof messageBody>;

const known: ReadonlySet<string> = new Set(Object.keys(messageBody.shape));
const remedies = {
  container: 'There are no containers and skills here. Remove it.',
  mcp_servers: 'Connect to the servers in the agent, and pass their tools.',
  compaction: 'Send fewer messages.',
  fallbacks: 'One model answers all calls. Remove it.',
  n: 'Each call samples one reply. Make several calls.',
};

/** Parses a Messages request of an Anthropic client. @throws EndpointError that names the field. */
export function readMessageBody(body: unknown): ParsedMessageRequest {
  const fields = asFields(body);
  if (isObject(fields.thread)) throw threadUnsupported();
  const read = parse(messageBody, checkNames(fields, known, remedies));
  const { thinking, tool_choice: choice, output_config, stop_sequences: stop, stream = false } = read;
  for (const [index, { type, keep }] of (read.context_management?.edits ?? []).entries())
    if (type !== 'clear_thinking_20251015' || keep !== 'all')
      throw unsupported(
        `context_management.edits.${index}`,
        'The reply follows the messages as they are. Send fewer messages.',
      );
  // A deferred tool is not in the prompt before a search finds it, and there is no search here.
  const shown = (read.tools ?? []).map(toTool).filter((_, index) => !read.tools?.[index]?.defer_loading);
  const tools = shown.length > 0 ? shown : undefined;
  if (!tools && (choice?.type === 'any' || choice?.type === 'tool'))
    throw invalid('tool_choice', 'needs `tools`.');
  if (read.output_format && output_config?.format)
    throw invalid('output_format', 'is the older name of `output_config.format`. Send only one of them.');
  const { schema } = output_config?.format ?? read.output_format ?? {};
  const messages = readConversation(read.system, read.messages);
  return {
    stream,
    omitsThinking: thinking !== undefined && 'display' in thinking && thinking.display === 'omitted',
    request: {
      seed: undefined,
      tools,
      prompt: { messages, callIds: messages.map(() => undefined), mayDropReasoning: true },
      settings: {
        return_token_ids: true,
        temperature: read.temperature,
        top_p: read.top_p,
        top_k: read.top_k,
        max_completion_tokens: read.max_tokens,
        stop: stop?.length ? stop : undefined,
        reasoning_effort: effortOf(read),
        response_format: schema && { type: 'json_schema', json_schema: { name: 'output', schema } },
        user: read.metadata?.user_id,
        ...(tools ? { tools, ...toToolChoice(choice) } : {}),
      },
    },
  };
}

/** At this code the loops over tools of Anthropic's client go on with all messages in each request. */
const threadUnsupported = () =>
  new EndpointError(
    400,
    'thread_unsupported_request',
    '`thread` is not supported here. Send all messages of the conversation.',
    'thread',
  );

/**
 * How much is thought. The effort "high" is the default of the API and asks for nothing. A budget becomes the effort that
 * is usual for its size, because the service's efforts are shares of the context.
 */
function effortOf({ thinking, output_config }: MessageBody): ChatCompletionRequest['reasoning_effort'] {
  const effort = output_config?.effort === 'high' ? undefined : output_config?.effort;
  if (thinking?.type === 'disabled') {
    if (effort)
      throw invalid('output_config.effort', 'sets how much the model thinks, but `thinking` is disabled.');
    return 'none';
  }
  if (effort || thinking?.type !== 'enabled') return effort;
  const { budget_tokens: budget } = thinking;
  if (budget < 1024) return 'minimal';
  if (budget < 2048) return 'low';
  return budget < 4096 ? 'medium' : 'high';
}

const customTool = z.object({
  name: z.string(),
  description: optional(z.string()),
  input_schema: z.record(z.string(), z.unknown()),
  strict: optional(z.boolean()),
});

function toTool(tool: Fields, index: number): Tool {
  const path = `tools.${index}`;
  const { type = 'custom', allowed_callers, input_examples } = tool;
  if (type !== null && type !== 'custom')
    throw unsupported(`${path}.type`, `It is "${String(type)}". Pass tools with an \`input_schema\`.`);
  if (Array.isArray(allowed_callers) && allowed_callers.some((caller) => caller !== 'direct'))
    throw unsupported(`${path}.allowed_callers`, 'Only the model calls tools: the value is ["direct"].');
  if (Array.isArray(input_examples) && input_examples.length > 0)
    throw unsupported(`${path}.input_examples`, 'Write them into the description.');
  const { name, description, input_schema, strict } = parse(customTool, tool, path);
  return { type: 'function', function: { name, description, parameters: input_schema, strict } };
}

function toToolChoice(
  choice: MessageBody['tool_choice'],
): Pick<ChatCompletionRequest, 'tool_choice' | 'parallel_tool_calls'> {
  // `auto` is the default: some services reject the field.
  if (!choice) return {};
  if (choice.type === 'none') return { tool_choice: 'none' };
  const parallel = choice.disable_parallel_tool_use ? { parallel_tool_calls: false } : {};
  if (choice.type === 'tool')
    return { tool_choice: { type: 'function', function: { name: choice.name } }, ...parallel };
  return choice.type === 'any' ? { tool_choice: 'required', ...parallel } : parallel;
}
