import type { LanguageModelV4StreamPart, SharedV4ProviderMetadata, SharedV4Warning } from '@ai-sdk/provider';
import type { ChatCompletionChunk } from '../contract/index.ts';
import { toFinishReason, toUsage } from './completion-content.ts';
import type { StreamedChoice } from './completion-stream.ts';
import { TextBlocks } from './text-blocks.ts';

export interface StreamPartsOptions {
  /** When they end, the call has been recorded. */
  chunks: AsyncIterable<ChatCompletionChunk>;
  /** What the chunks read so far make. */
  reply: StreamedChoice;
  warnings: SharedV4Warning[];
  stamp: SharedV4ProviderMetadata | undefined;
  includeRawChunks: boolean;
}

/** A streamed completion as AI SDK stream parts: by the time of its `finish` the call has been recorded. */
export async function* toStreamParts({
  chunks,
  reply,
  warnings,
  stamp,
  includeRawChunks,
}: StreamPartsOptions): AsyncGenerator<LanguageModelV4StreamPart, void, undefined> {
  const providerMetadata = stamp ? { providerMetadata: stamp } : {};
  const blocks = new TextBlocks(stamp);
  let begun = 0;
  yield { type: 'stream-start', warnings };
  for await (const chunk of chunks) {
    if (includeRawChunks) yield { type: 'raw', rawValue: chunk };
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
