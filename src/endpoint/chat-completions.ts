import {
  type ChatCompletion,
  type ChatCompletionChunk,
  type Choice,
  chatCompletionRequestSchema,
  refusedChatFields,
} from '../contract/index.ts';
import { errorBody, invalid, unsupported } from './endpoint-error.ts';
import type { StreamedAnswer } from './endpoint-model.ts';
import { dataFrame, eventStream } from './event-stream.ts';
import { asFields, checkNames, parse } from './read-fields.ts';
import { answerStreamed, answerWhole, type EndpointRequest, type EndpointSession } from './session.ts';

/** An agent's request, and the format of the reply. */
export interface ParsedChatRequest {
  request: EndpointRequest;
  stream: boolean;
  /** Whether the stream ends with a chunk that has the usage. */
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

/** Parses a chat request of an OpenAI client. @throws EndpointError that names the field. */
export function readChatBody(body: unknown): ParsedChatRequest {
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
        // `auto` is the default with tools: some services reject the field.
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

/** Fields that clients add to replies and send back. */
const echoes = new Set(['parsed', 'provider_specific_fields']);

function withoutEchoes(messages: unknown): unknown {
  if (!Array.isArray(messages)) return messages;
  return messages.map((message: unknown) => {
    if (typeof message !== 'object' || message === null) return message;
    if (!('role' in message) || message.role !== 'assistant') return message;
    return Object.fromEntries(Object.entries(message).filter(([field]) => !echoes.has(field)));
  });
}

/** Drops the option for padded stream events if it is off. Clients send it, and there is no padding here. */
function withoutObfuscation(fields: Record<string, unknown>): Record<string, unknown> {
  const { stream_options: options } = fields;
  if (typeof options !== 'object' || options === null) return fields;
  const { include_obfuscation: _, ...rest } = { include_obfuscation: undefined, ...options };
  return { ...fields, stream_options: rest };
}

export interface ShownFields {
  /** Whether the agent requested log-probabilities. */
  logprobs: boolean;
  /** Whether the agent requested token ids. */
  tokenIds: boolean;
}

/** The completion for the agent, without the fields that were requested only for recording. */
export function shownCompletion(completion: ChatCompletion, choice: Choice, shown: ShownFields) {
  const { prompt_token_ids, ...rest } = completion;
  return {
    ...rest,
    ...(shown.tokenIds ? { prompt_token_ids } : {}),
    choices: [{ ...shownChoice(choice, shown), message: { refusal: null, ...choice.message } }],
  };
}

export function shownChunk(chunk: ChatCompletionChunk, shown: ShownFields & { includeUsage: boolean }) {
  const { prompt_token_ids, usage, choices, ...rest } = chunk;
  return {
    ...rest,
    choices: choices.map((choice) => ({ ...shownChoice(choice, shown), delta: choice.delta })),
    ...(shown.includeUsage ? { usage: usage ?? null } : {}),
    ...(shown.tokenIds && prompt_token_ids ? { prompt_token_ids } : {}),
  };
}

function shownChoice(choice: Choice | ChatCompletionChunk['choices'][number], shown: ShownFields) {
  const { index, finish_reason, stop_reason, logprobs, token_ids } = choice;
  return {
    index,
    finish_reason,
    ...(stop_reason === undefined ? {} : { stop_reason }),
    logprobs: shown.logprobs ? (logprobs ?? null) : null,
    ...(shown.tokenIds ? { token_ids } : {}),
  };
}

/** `POST /v1/chat/completions`. */
export async function answerChat(
  session: EndpointSession,
  body: unknown,
  client: AbortSignal,
): Promise<Response> {
  const asked = readChatBody(body);
  if (!asked.stream) {
    const { completion, choice } = await answerWhole(session, client, asked.request);
    return Response.json(shownCompletion(completion, choice, asked));
  }
  const answer = await answerStreamed(session, client, asked.request);
  return eventStream(frames(answer, asked), answer.abandon);
}

async function* frames({ chunks }: StreamedAnswer, asked: ParsedChatRequest): AsyncGenerator<string> {
  // The last chunks are held back until the call is recorded, because agents continue as soon as they see them.
  const ending: ChatCompletionChunk[] = [];
  try {
    for await (const chunk of chunks) {
      if (chunk.choices.length === 0 && !asked.includeUsage) continue;
      if (ending.length > 0 || chunk.choices[0]?.finish_reason) ending.push(chunk);
      else yield dataFrame(shownChunk(chunk, asked));
    }
    for (const chunk of ending) yield dataFrame(shownChunk(chunk, asked));
    yield 'data: [DONE]\n\n';
  } catch (error) {
    yield dataFrame(errorBody(error));
  }
}
