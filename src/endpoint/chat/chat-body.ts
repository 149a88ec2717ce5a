import { chatCompletionRequestSchema, refusedChatFields } from '../../contract/index.ts';
import { invalid, unsupported } from '../endpoint-error.ts';
import { asFields, checkNames, parse } from '../read-fields.ts';
import type { EndpointRequest } from '../session-call.ts';

/** What an agent asked for, and how it wants to see the reply. */
export interface ChatAsked {
  request: EndpointRequest;
  stream: boolean;
  /** A last chunk with the usage. */
  includeUsage: boolean;
  logprobs: boolean;
  tokenIds: boolean;
}

const known: ReadonlySet<string> = new Set(Object.keys(chatCompletionRequestSchema.shape));

const remedies = {
  ...refusedChatFields,
  modalities: 'The models write text.',
  moderation: 'Leave it out.',
  use_beam_search: 'A reply that beam search found is no sample of the policy and cannot be trained on.',
  length_penalty: 'It belongs to beam search, whose replies cannot be trained on.',
  continuous_usage_stats: 'The usage is in the last chunk.',
};

/** Reads a chat request as OpenAI's clients write it. @throws EndpointError that names the field. */
export function readChatBody(body: unknown): ChatAsked {
  const fields = asFields(body);
  if (isTextOnly(fields.modalities)) delete fields.modalities;
  const cleaned = { ...withoutObfuscation(fields), messages: withoutEchoes(fields.messages) };
  const parsed = parse(chatCompletionRequestSchema, checkNames(cleaned, known, remedies));
  const { messages, model: _, seed, stream = false, stream_options, n = 1, ...answer } = parsed;
  const { tools, function_call, logprobs = false, return_token_ids = false, ...rest } = answer;
  const { tool_choice = function_call, max_tokens, max_completion_tokens, ...settings } = rest;
  if (function_call && tool_choice !== function_call)
    throw invalid('function_call', 'is the older form of `tool_choice`, which asks for something else.');
  if (n !== 1) throw unsupported('n', 'Each call samples one reply: make several calls.');
  if (stream_options && !stream) throw invalid('stream_options', 'needs `stream: true`.');
  if (stream_options?.continuous_usage_stats)
    throw unsupported('stream_options.continuous_usage_stats', remedies.continuous_usage_stats);
  if (settings.top_logprobs !== undefined && !logprobs)
    throw invalid('top_logprobs', 'needs `logprobs: true`.');
  const someTools = tools?.length ? tools : undefined;
  if (!someTools && (tool_choice === 'required' || typeof tool_choice === 'object'))
    throw invalid('tool_choice', 'needs `tools`.');
  return {
    stream,
    includeUsage: stream_options?.include_usage ?? false,
    logprobs,
    tokenIds: return_token_ids,
    request: {
      seed,
      tools: someTools,
      prompt: { messages, callIds: messages.map(() => undefined), mayDropReasoning: true },
      settings: {
        ...settings,
        logprobs: true,
        return_token_ids: true,
        max_completion_tokens: max_completion_tokens ?? max_tokens,
        // `auto` is what absent means, also to services that know no other value.
        ...(someTools
          ? { tools: someTools, tool_choice: tool_choice === 'auto' ? undefined : tool_choice }
          : {}),
      },
    },
  };
}

function isTextOnly(modalities: unknown): boolean {
  return Array.isArray(modalities) && modalities.every((modality) => modality === 'text');
}

/** What clients add to replies for their own use, and send back with them. */
const echoes = new Set(['parsed', 'provider_specific_fields']);

function withoutEchoes(messages: unknown): unknown {
  if (!Array.isArray(messages)) return messages;
  return messages.map((message: unknown) => {
    if (typeof message !== 'object' || message === null) return message;
    if (!('role' in message) || message.role !== 'assistant') return message;
    return Object.fromEntries(Object.entries(message).filter(([field]) => !echoes.has(field)));
  });
}

/** Padding of stream events, which there is none of here; clients send that they want none. */
function withoutObfuscation(fields: Record<string, unknown>): Record<string, unknown> {
  const { stream_options: options } = fields;
  if (typeof options !== 'object' || options === null) return fields;
  const { include_obfuscation: _, ...rest } = { include_obfuscation: undefined, ...options };
  return { ...fields, stream_options: rest };
}
