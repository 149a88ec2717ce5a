import type { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest } from '../../contract/index.ts';
import type { Call, OpenAnswer } from '../call.ts';
import { chatBody } from '../dialect.ts';
import { BadResponseError, ConnectionError, ServiceError } from '../errors.ts';
import { parseJson } from '../parse.ts';
import type { CallOptions, Requester } from '../requester.ts';
import { readEventStream } from '../sse.ts';
import { excerpt, readErrorBody } from '../status-error.ts';

/*
 * Only the envelope of completions is checked, by hand. Choices must keep unknown fields, because they are sent back
 * whole for training. A schema would also take longer than the call: a run makes tens of thousands of calls, each with
 * log-probabilities of every token.
 */

export function isCompletion(value: unknown): value is ChatCompletion {
  return (
    hasChoices(value) &&
    value.choices.length > 0 &&
    value.choices.every(isChoice) &&
    'usage' in value &&
    isObject(value.usage)
  );
}

/** A chunk may have no choices, as the chunk with the usage does. */
export function isChunk(value: unknown): value is ChatCompletionChunk {
  return hasChoices(value) && !('error' in value && value.error);
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function hasChoices(value: unknown): value is { model: string; choices: unknown[] } {
  return (
    isObject(value) &&
    'model' in value &&
    typeof value.model === 'string' &&
    'choices' in value &&
    Array.isArray(value.choices)
  );
}

function isChoice(value: unknown): boolean {
  return (
    isObject(value) &&
    'message' in value &&
    isObject(value.message) &&
    'finish_reason' in value &&
    typeof value.finish_reason === 'string'
  );
}

/**
 * Reads the chunks of a streamed completion.
 *
 * @throws ServiceError if the service reports a failure during the stream; ConnectionError if the stream ends without
 * `[DONE]`, because the completion is then incomplete; ResponseTooLargeError above `limits.answerBytes`.
 */
export async function* readChunks(answer: OpenAnswer): AsyncGenerator<ChatCompletionChunk, undefined> {
  const { facts } = answer;
  for await (const { data } of readEventStream(answer, answer.answer())) {
    if (data === '[DONE]') return;
    const value = parseJson({ facts, text: data });
    if (isChunk(value)) yield value;
    else throw chunkError(facts, value, data);
  }
  throw new ConnectionError({ ...facts, detail: 'the stream ended without [DONE]' }, 'cut');
}

function chunkError(facts: OpenAnswer['facts'], value: unknown, data: string): Error {
  if (isObject(value) && ('error' in value || 'detail' in value)) {
    const { detail } = readErrorBody(data);
    return new ServiceError({ ...facts, detail: `failed in the middle of the stream: ${detail}` }, null);
  }
  return new BadResponseError({ ...facts, detail: `not a chunk of a completion: ${excerpt(data)}` });
}

export type WholeChatRequest = ChatCompletionRequest & { stream?: false | null | undefined };
export type StreamedChatRequest = ChatCompletionRequest & { stream: true };

export class ChatCompletions {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  /**
   * Samples a reply. The completion is returned as sent, including unknown fields, because choices are sent back whole
   * for training. Only the envelope is checked.
   *
   * Sampling is expensive, so a call is retried only if the service did not answer it: no connection, 408, 429 or 503.
   * It is not retried after a broken connection, a timeout or another 5xx.
   *
   * @throws RequestError, in the subclass of the failure, or the reason of `signal`.
   */
  create(request: WholeChatRequest, options?: CallOptions): Promise<ChatCompletion>;
  /**
   * Samples a reply as a stream. Resolves when the service begins to answer. The deadline covers the whole stream. Read
   * the stream to its end or break out of the loop; both free the connection.
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
