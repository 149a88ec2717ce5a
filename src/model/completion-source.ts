import type { CallOptions, StreamedChatRequest, WholeChatRequest } from '../client/index.ts';
import type { ChatCompletion, ChatCompletionChunk } from '../contract/index.ts';

/** What answers chat requests: the client's `chat.completions`, or a record of earlier calls. */
export interface CompletionSource {
  create(request: WholeChatRequest, options?: CallOptions): Promise<ChatCompletion>;
  create(
    request: StreamedChatRequest,
    options?: CallOptions,
  ): Promise<AsyncIterableIterator<ChatCompletionChunk>>;
}
