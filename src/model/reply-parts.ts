import type {
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
  SharedV4ProviderMetadata,
  SharedV4Warning,
} from '@ai-sdk/provider';
import type { ChatCompletionChunk, Choice, FinishReason, Usage } from '../contract/index.ts';
import { reasoningOf } from '../trajectory/index.ts';
import type { StreamedChoice } from './completion-source.ts';
import { providerName } from './prompt-messages.ts';

/** Metadata for each part of a reply that identifies its call, so that later prompts can be matched with it. */
export function callStamp(callId: string | undefined): SharedV4ProviderMetadata | undefined {
  return callId === undefined ? undefined : { [providerName]: { callId } };
}

/** The reply as AI SDK content. It has at least one part, because an empty reply needs a part to carry its stamp. */
export function toContent(
  { message }: Choice,
  providerMetadata: SharedV4ProviderMetadata | undefined,
): LanguageModelV4Content[] {
  const stamp = providerMetadata ? { providerMetadata } : {};
  const content: LanguageModelV4Content[] = [];
  const reasoning = reasoningOf(message);
  if (reasoning) content.push({ type: 'reasoning', text: reasoning, ...stamp });
  const toolCalls = message.tool_calls ?? [];
  if (message.content || (!reasoning && toolCalls.length === 0)) {
    content.push({ type: 'text', text: message.content ?? '', ...stamp });
  }
  for (const { id, function: called } of toolCalls) {
    content.push({
      type: 'tool-call',
      toolCallId: id,
      toolName: called.name,
      input: called.arguments,
      ...stamp,
    });
  }
  return content;
}

const unified = {
  stop: 'stop',
  length: 'length',
  tool_calls: 'tool-calls',
  function_call: 'tool-calls',
  content_filter: 'content-filter',
} as const;

export function toFinishReason(reason: FinishReason): LanguageModelV4FinishReason {
  return { unified: unified[reason], raw: reason };
}

export function toUsage(usage: Usage | undefined): LanguageModelV4Usage {
  const cached = usage?.prompt_tokens_details?.cached_tokens;
  return {
    inputTokens: {
      total: usage?.prompt_tokens,
      noCache: usage === undefined || cached === undefined ? undefined : usage.prompt_tokens - cached,
      cacheRead: cached,
      cacheWrite: undefined,
    },
    outputTokens: { total: usage?.completion_tokens, text: undefined, reasoning: undefined },
  };
}

interface StreamPartsOptions {
  /** The call is recorded when the chunks end. */
  chunks: AsyncIterable<ChatCompletionChunk>;
  /** The reply assembled from the chunks read so far. */
  reply: StreamedChoice;
  warnings: SharedV4Warning[];
  stamp: SharedV4ProviderMetadata | undefined;
  includeRawChunks: boolean;
}

/** A streamed completion as AI SDK stream parts. The call is recorded before the `finish` part. */
export async function* toStreamParts({
  chunks,
  reply,
  warnings,
  stamp,
  includeRawChunks,
}: StreamPartsOptions): AsyncGenerator<LanguageModelV4StreamPart, void, undefined> {
  const providerMetadata = stamp ? { providerMetadata: stamp } : {};
  const blocks = new TextBlocks(stamp);
  let startedCalls = 0;
  yield { type: 'stream-start', warnings };
  for await (const chunk of chunks) {
    if (includeRawChunks) yield { type: 'raw', rawValue: chunk };
    const delta = chunk.choices[0]?.delta;
    const reasoning = reasoningOf(delta ?? {});
    if (reasoning) yield* blocks.write('reasoning', reasoning);
    if (delta?.content) yield* blocks.write('text', delta.content);
    for (const call of delta?.tool_calls ?? []) {
      const known = reply.toolCalls[call.index];
      if (!known) continue;
      if (call.index >= startedCalls) {
        yield* blocks.end();
        yield { type: 'tool-input-start', id: known.id, toolName: known.function.name };
        startedCalls = call.index + 1;
      }
      if (call.function.arguments) {
        yield { type: 'tool-input-delta', id: known.id, delta: call.function.arguments };
      }
    }
  }
  const completion = reply.complete();
  // An empty reply needs a part to carry its stamp.
  if (blocks.isEmpty && reply.toolCalls.length === 0) yield* blocks.begin('text');
  yield* blocks.end();
  for (const { id, function: called } of reply.toolCalls) {
    yield { type: 'tool-input-end', id };
    yield {
      type: 'tool-call',
      toolCallId: id,
      toolName: called.name,
      input: called.arguments,
      ...providerMetadata,
    };
  }
  yield { type: 'response-metadata', id: completion.id, modelId: completion.model };
  yield {
    type: 'finish',
    finishReason: toFinishReason(completion.choice.finish_reason),
    usage: toUsage(completion.usage),
    ...providerMetadata,
  };
}

type Kind = 'text' | 'reasoning';

/** Blocks of text and reasoning as AI SDK stream parts. One block is open at a time. */
class TextBlocks {
  readonly #stamp: { providerMetadata?: SharedV4ProviderMetadata };
  #open: { kind: Kind; id: string } | undefined;
  #blocks = 0;

  constructor(stamp: SharedV4ProviderMetadata | undefined) {
    this.#stamp = stamp ? { providerMetadata: stamp } : {};
  }

  get isEmpty(): boolean {
    return this.#blocks === 0;
  }

  *write(kind: Kind, delta: string): Generator<LanguageModelV4StreamPart> {
    if (this.#open?.kind !== kind) yield* this.begin(kind);
    if (this.#open) yield { type: `${kind}-delta` as const, id: this.#open.id, delta };
  }

  *begin(kind: Kind): Generator<LanguageModelV4StreamPart> {
    yield* this.end();
    this.#open = { kind, id: `${kind}-${this.#blocks++}` };
    yield { type: `${kind}-start` as const, id: this.#open.id, ...this.#stamp };
  }

  *end(): Generator<LanguageModelV4StreamPart> {
    if (!this.#open) return;
    const { kind, id } = this.#open;
    this.#open = undefined;
    yield { type: `${kind}-end` as const, id };
  }
}
