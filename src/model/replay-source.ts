import type { CallOptions, StreamedChatRequest, WholeChatRequest } from '../client/index.ts';
import type { ChatCompletion, ChatCompletionChunk, Choice } from '../contract/index.ts';
import type { CompletionSource } from './completion-source.ts';
import { StreamedChoice } from './completion-source.ts';

/** The recorded answer to a call: either the completion or the chunks of its stream. */
export interface RecordedAnswer {
  completion?: ChatCompletion;
  chunks?: readonly ChatCompletionChunk[];
}

/** Answers whole and streamed requests from a record, however it was recorded. A subclass looks up the answers. */
export abstract class ReplaySource implements CompletionSource {
  /** Finds the answer to a request. Returns each recorded answer once. @throws if there is none. */
  protected abstract take(request: WholeChatRequest | StreamedChatRequest): RecordedAnswer;

  create(request: WholeChatRequest, options?: CallOptions): Promise<ChatCompletion>;
  create(
    request: StreamedChatRequest,
    options?: CallOptions,
  ): Promise<AsyncIterableIterator<ChatCompletionChunk>>;
  async create(
    request: WholeChatRequest | StreamedChatRequest,
    { signal }: CallOptions = {},
  ): Promise<ChatCompletion | AsyncIterableIterator<ChatCompletionChunk>> {
    signal?.throwIfAborted();
    // The caller may change its answer, which must not change the record.
    const { completion, chunks = [] } = structuredClone(this.take(request));
    if (request.stream) return stream(completion ? toChunks(completion) : chunks);
    return completion ?? toCompletion(chunks);
  }
}

async function* stream(
  chunks: readonly ChatCompletionChunk[],
): AsyncGenerator<ChatCompletionChunk, undefined> {
  yield* chunks;
}

type ChunkChoice = ChatCompletionChunk['choices'][number];

/** A completion as stream chunks: the role, the text, each tool call, then the finish reason and token ids. */
function toChunks(completion: ChatCompletion): ChatCompletionChunk[] {
  const { id, created, model, choices, usage, prompt_token_ids } = completion;
  const head = { id, object: 'chat.completion.chunk' as const, created, model };
  const chunk = (choice: ChunkChoice) => ({ ...head, choices: [choice] });
  const [opening, ...pieces] = choices.flatMap(toPieces);
  return [
    ...(opening ? [{ ...chunk(opening), ...(prompt_token_ids ? { prompt_token_ids } : {}) }] : []),
    ...pieces.map(chunk),
    { ...head, choices: [], usage },
  ];
}

function toPieces(choice: Choice): ChunkChoice[] {
  const { index, message, finish_reason, credited_reward: _, ...end } = choice;
  const { content, reasoning, reasoning_content, refusal, tool_calls } = message;
  const texts = Object.entries({ content, reasoning, reasoning_content, refusal }).filter(
    ([, text]) => text !== undefined,
  );
  const piece = (delta: ChunkChoice['delta']): ChunkChoice => ({ index, delta, finish_reason: null });
  return [
    piece({ role: 'assistant' }),
    ...texts.map(([name, text]) => piece({ [name]: text })),
    ...(tool_calls ?? []).map((call, at) => piece({ tool_calls: [{ index: at, ...call }] })),
    { index, delta: {}, finish_reason, ...end },
  ];
}

/** A recorded stream as a completion. @throws ModelError if the recorded caller stopped reading early. */
function toCompletion(chunks: readonly ChatCompletionChunk[]): ChatCompletion {
  const reply = new StreamedChoice();
  for (const chunk of chunks) reply.add(chunk);
  const { id, model, choice, promptTokenIds, usage } = reply.complete();
  const completion_tokens = choice.token_ids?.length ?? 0;
  return {
    id,
    object: 'chat.completion',
    created: chunks[0]?.created ?? 0,
    model,
    choices: [choice],
    usage: usage ?? {
      prompt_tokens: promptTokenIds.length,
      completion_tokens,
      total_tokens: promptTokenIds.length + completion_tokens,
    },
    ...(promptTokenIds.length > 0 ? { prompt_token_ids: promptTokenIds } : {}),
  };
}

/** The paths at which two values differ, with both values. */
export function differences(
  a: unknown,
  b: unknown,
  path: string,
): { path: string; a: unknown; b: unknown }[] {
  if (a === b) return [];
  if (!isObject(a) || !isObject(b) || Array.isArray(a) !== Array.isArray(b)) return [{ path, a, b }];
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  return names.flatMap((name) =>
    differences(
      Reflect.get(a, name),
      Reflect.get(b, name),
      Array.isArray(a) ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`,
    ),
  );
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** A value as JSON for an error message, cut after `limit` characters. */
export function quoted(value: unknown, limit: number): string {
  const text = value === undefined ? 'absent' : JSON.stringify(value);
  return text.length > limit ? `${text.slice(0, limit)}…` : text;
}
