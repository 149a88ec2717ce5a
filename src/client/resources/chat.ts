import type { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest } from '../../contract/index.ts';
import type { Call } from '../call.ts';
import { chatBody } from '../dialect.ts';
import { BadResponseError } from '../errors.ts';
import { parseJson } from '../parse.ts';
import type { CallOptions, Requester } from '../requester.ts';
import { excerpt } from '../status-error.ts';
import { readChunks } from './chat-stream.ts';

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
   * A call is repeated only where nothing can have been sampled: no connection, 429, 503.
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
    const answer = await this.#requester.transport.send(this.#call(request, options));
    const value = parseJson(answer);
    if (isCompletion(value)) return value;
    throw new BadResponseError({ ...answer.facts, detail: `not a completion: ${excerpt(answer.text)}` });
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
    const detail = `not an event stream: ${excerpt(await answer.text())}`;
    throw new BadResponseError({ ...answer.facts, detail });
  }

  #call(request: ChatCompletionRequest, options: CallOptions): Call {
    return {
      method: 'POST',
      path: '/chat/completions',
      body: JSON.stringify(chatBody(this.#requester.dialect, request)),
      repeat: 'untouched',
      signal: options.signal,
      timeoutMs: options.timeoutMs ?? this.#requester.timeoutMs,
    };
  }
}

/**
 * The envelope by hand, which takes a microsecond where the schema takes longer than the call: a run makes tens of
 * thousands of these, with log-probabilities of every token.
 */
function isCompletion(value: unknown): value is ChatCompletion {
  return (
    typeof value === 'object' &&
    value !== null &&
    'model' in value &&
    typeof value.model === 'string' &&
    'choices' in value &&
    Array.isArray(value.choices) &&
    value.choices.length > 0 &&
    value.choices.every(isChoice) &&
    'usage' in value &&
    typeof value.usage === 'object' &&
    value.usage !== null
  );
}

function isChoice(value: unknown): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    'message' in value &&
    typeof value.message === 'object' &&
    value.message !== null &&
    'finish_reason' in value &&
    typeof value.finish_reason === 'string'
  );
}
