import type { LanguageModelV4StreamPart, SharedV4ProviderMetadata, SharedV4Warning } from '@ai-sdk/provider';
import type { ChatCompletionChunk } from '../contract/index.ts';
import { toFinishReason, toUsage } from './completion-content.ts';
import { StreamedChoice, type StreamedCompletion } from './completion-stream.ts';
import { TextBlocks } from './text-blocks.ts';

/** Told once how the stream ended; a consumer that stops reading ends it too. */
export interface StreamEnd {
  resolve: () => void;
  reject: (error: unknown) => void;
}

/**
 * A streamed completion as AI SDK stream parts. `onCompletion` is given the whole reply before the stream's `finish`,
 * so that a call is recorded by the time the agent goes on; what it throws ends the stream as an error.
 */
export async function* toStreamParts({
  onEnd,
  ...options
}: StreamPartsOptions): AsyncGenerator<LanguageModelV4StreamPart, void, undefined> {
  try {
    yield* parts(options);
  } catch (error) {
    onEnd.reject(error);
    throw error;
  } finally {
    onEnd.resolve();
  }
}

export interface StreamPartsOptions {
  chunks: AsyncIterable<ChatCompletionChunk>;
  warnings: SharedV4Warning[];
  stamp: SharedV4ProviderMetadata | undefined;
  includeRawChunks: boolean;
  onCompletion: (completion: StreamedCompletion) => void;
  onEnd: StreamEnd;
}

async function* parts({
  chunks,
  warnings,
  stamp,
  includeRawChunks,
  onCompletion,
}: Omit<StreamPartsOptions, 'onEnd'>): AsyncGenerator<LanguageModelV4StreamPart, void, undefined> {
  const providerMetadata = stamp ? { providerMetadata: stamp } : {};
  const reply = new StreamedChoice();
  const blocks = new TextBlocks(stamp);
  let begun = 0;
  yield { type: 'stream-start', warnings };
  for await (const chunk of chunks) {
    if (includeRawChunks) yield { type: 'raw', rawValue: chunk };
    reply.add(chunk);
    const delta = chunk.choices[0]?.delta;
    const reasoning = delta?.reasoning || delta?.reasoning_content;
    if (reasoning) yield* blocks.write('reasoning', reasoning);
    if (delta?.content) yield* blocks.write('text', delta.content);
    for (const call of delta?.tool_calls ?? []) {
      const known = reply.toolCalls[call.index];
      if (!known) continue;
      if (call.index >= begun) {
        yield* blocks.end();
        yield { type: 'tool-input-start', id: known.id, toolName: known.function.name };
        begun = call.index + 1;
      }
      if (call.function.arguments) {
        yield { type: 'tool-input-delta', id: known.id, delta: call.function.arguments };
      }
    }
  }
  const completion = reply.complete();
  onCompletion(completion);
  // An empty reply too must come back with its stamp.
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
