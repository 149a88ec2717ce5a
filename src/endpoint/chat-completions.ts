import type { ServerResponse } from 'node:http';
import {
  type ChatCompletion,
  type ChatCompletionChunk,
  type Choice,
  chatCompletionRequestSchema,
  compiledChatRequestSchema,
  type Message,
  type ParsedMessage,
  refusedChatFields,
} from '../contract/index.ts';
import { dataFrame, doneFrame } from '../util/event-stream.ts';
import { isObject } from '../util/json.ts';
import { errorBody, invalid, unsupported } from './endpoint-error.ts';
import type { EndpointAnswer } from './exchange.ts';
import { asFields, checkNames, parse } from './read-fields.ts';
import {
  answerComplete,
  answerStreamed,
  type EndpointRequest,
  type EndpointSession,
  type StreamedAnswer,
} from './session.ts';

/** An agent's request, and the format of the reply. */
interface ParsedChatRequest {
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
  return_token_logprobs: 'Send `logprobs: true` and `return_token_ids: true`.',
  modalities: 'The models write text.',
  moderation: 'Remove it.',
  use_beam_search: 'A beam-search reply is not a sample of the policy and cannot be trained on.',
  length_penalty: 'It belongs to beam search, whose replies cannot be trained on.',
  continuous_usage_stats: 'The usage is in the last chunk.',
};

/** Parses a chat request of an OpenAI client. @throws EndpointError that names the field. */
function readChatBody(body: unknown): ParsedChatRequest {
  const fields = asFields(body);
  if (isTextOnly(fields.modalities)) delete fields.modalities;
  const cleaned = checkNames(withoutObfuscation(fields), known, remedies);
  const parsed = parse(compiledChatRequestSchema(), cleaned);
  const { messages: sent, model: _, seed, stream = false, stream_options, n = 1, ...answer } = parsed;
  const { tools, function_call, logprobs = false, return_token_ids = false, ...rest } = answer;
  const { tool_choice = function_call, max_tokens, max_completion_tokens, ...settings } = rest;
  if (function_call && tool_choice !== function_call)
    throw invalid('function_call', 'is the older form of `tool_choice` and conflicts with it.');
  if (n !== 1) throw unsupported('n', 'Each call samples one reply. Make several calls.');
  if (stream_options && !stream) throw invalid('stream_options', 'needs `stream: true`.');
  if (stream_options?.continuous_usage_stats)
    throw unsupported('stream_options.continuous_usage_stats', remedies.continuous_usage_stats);
  if (settings.top_logprobs !== undefined && !logprobs)
    throw invalid('top_logprobs', 'needs `logprobs: true`.');
  const messages = withoutClientFields(sent);
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
        // The caller asks for them in the form that suits it, unless the agent wants to see them.
        logprobs: logprobs || undefined,
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

/** The messages without what clients add to a reply and repeat in its text, which not every service takes. */
const withoutClientFields = (messages: ParsedMessage[]): Message[] =>
  messages.map((message) => {
    if (message.role !== 'assistant') return message;
    const { role, content } = message;
    const cleaned = { ...message, parsed: undefined, provider_specific_fields: undefined };
    if (!Array.isArray(content)) return cleaned;
    const parts = content.map((part) => (part.type === 'text' ? { type: part.type, text: part.text } : part));
    return { ...cleaned, role, content: parts };
  });

/** Drops the option for padded stream events if it is off. Clients send it, and there is no padding here. */
function withoutObfuscation(fields: Record<string, unknown>): Record<string, unknown> {
  if (!isObject(fields.stream_options)) return fields;
  const { include_obfuscation: _, ...rest } = fields.stream_options;
  return { ...fields, stream_options: rest };
}

interface VisibleFields {
  /** Whether the agent requested log-probabilities. */
  logprobs: boolean;
  /** Whether the agent requested token ids. */
  tokenIds: boolean;
}

/** The completion for the agent, without the fields that were requested only for recording. */
function toVisibleCompletion(completion: ChatCompletion, choice: Choice, visible: VisibleFields) {
  const { prompt_token_ids, ...rest } = completion;
  return {
    ...rest,
    ...(visible.tokenIds ? { prompt_token_ids } : {}),
    choices: [{ ...toVisibleChoice(choice, visible), message: { refusal: null, ...choice.message } }],
  };
}

function toVisibleChunk(chunk: ChatCompletionChunk, visible: VisibleFields & { includeUsage: boolean }) {
  const { prompt_token_ids, usage, choices, ...rest } = chunk;
  return {
    ...rest,
    choices: choices.map((choice) => ({ ...toVisibleChoice(choice, visible), delta: choice.delta })),
    ...(visible.includeUsage ? { usage: usage ?? null } : {}),
    ...(visible.tokenIds && prompt_token_ids ? { prompt_token_ids } : {}),
  };
}

function toVisibleChoice(choice: Choice | ChatCompletionChunk['choices'][number], visible: VisibleFields) {
  const { index, finish_reason, stop_reason, stop_string, logprobs, token_ids } = choice;
  return {
    index,
    finish_reason,
    ...(stop_reason === undefined ? {} : { stop_reason }),
    ...(stop_string ? { stop_string } : {}),
    logprobs: visible.logprobs ? (logprobs ?? null) : null,
    ...(visible.tokenIds ? { token_ids } : {}),
  };
}

/** `POST /v1/chat/completions`. */
export async function answerChat(
  session: EndpointSession,
  body: unknown,
  client: ServerResponse,
): Promise<EndpointAnswer> {
  const parsed = readChatBody(body);
  if (!parsed.stream) {
    const { completion, choice } = await answerComplete(session, client, parsed.request);
    return { json: toVisibleCompletion(completion, choice, parsed) };
  }
  return { frames: frames(await answerStreamed(session, client, parsed.request), parsed) };
}

async function* frames({ chunks }: StreamedAnswer, parsed: ParsedChatRequest): AsyncGenerator<string> {
  // The last chunks are held back until the call is recorded, because agents continue as soon as they see them.
  const ending: ChatCompletionChunk[] = [];
  try {
    for await (const chunk of chunks) {
      if (chunk.choices.length === 0 && !parsed.includeUsage) continue;
      if (ending.length > 0 || chunk.choices[0]?.finish_reason) ending.push(chunk);
      else yield dataFrame(toVisibleChunk(chunk, parsed));
    }
    for (const chunk of ending) yield dataFrame(toVisibleChunk(chunk, parsed));
    yield doneFrame;
  } catch (error) {
    yield dataFrame(errorBody(error));
  }
}
