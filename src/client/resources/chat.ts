import type { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest } from '../../contract/index.ts';
import type { Call } from '../call.ts';
import { chatBody } from '../dialect.ts';
import { BadResponseError } from '../errors.ts';
import { parseJson } from '../parse.ts';
import type { CallOptions, Requester } from '../requester.ts';
import { excerpt } from '../status-error.ts';
import { readChunks } from './chat-stream.ts';
import { isCompletion } from './envelope.ts';

export type WholeChatRequest = ChatCompletionRequest & { stream?: false | null | undefined };
export type StreamedChatRequest = ChatCompletionRequest & { stream: true };

export class ChatCompletions {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  /**
   * Samples a reply. The completion is what the service sent, fields that the contract does not have included:
   * choices go back whole when they are trained on, so only their envelope is checked.
   *
   * Sampling is not free, so a call is repeated only where the service says, or cannot help showing, that it has not
   * answered it: no connection, 408, 429, 503. After a broken connection, a deadline or another 5xx it is not.
   *
   * @throws RequestError, of the class of what failed; or the reason of `signal`.
   */
  create(request: WholeChatRequest, options?: CallOptions): Promise<ChatCompletion>;
  /**
   * The same as a stream; resolves when the service has begun to answer. Its deadline spans the whole stream.
   * Read it to the end or leave the loop: both free the connection.
   */
  create(
    request: StreamedChatRequest,
    options?: CallOptions,
  ): Promise<AsyncIterableIterator<ChatCompletionChunk>>;
  create(
    request: WholeChatRequest | StreamedChatRequest,
    options: CallOptions = {},
  ): Promise<ChatCompletion | AsyncIterableIterator<ChatCompletionChunk>> {
    return request.stream ? this.#stream(request, options) : this.#whole(request, options);
  }

  async #whole(request: ChatCompletionRequest, options: CallOptions): Promise<ChatCompletion> {
    return this.#requester.transport.send(this.#call(request, options), (answer) => {
      const value = parseJson(answer);
      if (isCompletion(value)) return value;
      throw new BadResponseError({ ...answer.facts, detail: `not a completion: ${excerpt(answer.text)}` });
    });
  }

  async #stream(
    request: ChatCompletionRequest,
    options: CallOptions,
  ): Promise<AsyncIterableIterator<ChatCompletionChunk>> {
    const call = this.#call(request, options);
    const answer = await this.#requester.transport.open({
      ...call,
      headers: { accept: 'text/event-stream' },
    });
    if (answer.contentType.startsWith('text/event-stream')) return readChunks(answer);
    const detail = `not an event stream: ${excerpt(await answer.beginning())}`;
    throw new BadResponseError({ ...answer.facts, detail });
  }

  #call(request: ChatCompletionRequest, options: CallOptions): Call {
    return {
      method: 'POST',
      path: '/chat/completions',
      body: JSON.stringify(chatBody(this.#requester.dialect, request)),
      repeat: 'unanswered',
      signal: options.signal,
      onRetry: options.onRetry,
      timeoutMs: options.timeoutMs ?? this.#requester.timeoutMs,
      timeoutOption: 'timeoutMs',
    };
  }
}
