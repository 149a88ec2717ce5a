import type { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest } from '../../contract/index.ts';
import { isObject, type JsonObject } from '../../util/json.ts';
import type { Call, OpenAnswer } from '../call.ts';
import { RequestError } from '../errors.ts';
import { chatBody } from '../options.ts';
import { parseJson } from '../parse.ts';
import { type CallOptions, Resource } from '../requester.ts';
import { readEventStream } from '../sse.ts';
import { excerpt, readErrorBody } from '../status-error.ts';

/*
 * Only the envelope of completions is checked, by hand. Choices must keep unknown fields, because they are sent back
 * whole for training. A schema would also take longer than the call: a run makes tens of thousands of calls, each with
 * log-probabilities of every token.
 */

function isCompletion(value: unknown): value is ChatCompletion {
  return (
    hasChoices(value) && value.choices.length > 0 && value.choices.every(isChoice) && isObject(value.usage)
  );
}

/** A chunk may have no choices, as the chunk with the usage does. */
function isChunk(value: unknown): value is ChatCompletionChunk {
  return hasChoices(value) && !value.error;
}

function hasChoices(value: unknown): value is JsonObject & { choices: unknown[] } {
  return isObject(value) && typeof value.model === 'string' && Array.isArray(value.choices);
}

function isChoice(value: unknown): boolean {
  return isObject(value) && isObject(value.message) && typeof value.finish_reason === 'string';
}

/**
 * Reads the chunks of a streamed completion.
 *
 * @throws RequestError of code `service_failed` if the service reports a failure during the stream, `connection_failed`
 * if the stream ends without `[DONE]`, because the completion is then incomplete, and `response_too_large` above
 * `limits.answerBytes`.
 */
async function* readChunks(answer: OpenAnswer): AsyncGenerator<ChatCompletionChunk, undefined> {
  const { facts } = answer;
  for await (const { data } of readEventStream(answer, answer.answer())) {
    if (data === '[DONE]') return;
    const value = parseJson({ facts, text: data });
    if (isChunk(value)) yield value;
    else throw chunkError(facts, value, data);
  }
  throw new RequestError('connection_failed', { ...facts, detail: 'the stream ended without [DONE]' });
}

function chunkError(facts: OpenAnswer['facts'], value: unknown, data: string): Error {
  if (isObject(value) && ('error' in value || 'detail' in value)) {
    const { detail } = readErrorBody(data);
    return new RequestError('service_failed', { ...facts, detail: `failed during the stream: ${detail}` });
  }
  return new RequestError('bad_response', {
    ...facts,
    detail: `not a chunk of a completion: ${excerpt(data)}`,
  });
}

export type WholeChatRequest = ChatCompletionRequest & { stream?: false | null | undefined };
export type StreamedChatRequest = ChatCompletionRequest & { stream: true };

export class ChatCompletions extends Resource {
  /**
   * Samples a reply. The completion is returned as sent, including unknown fields, because choices are sent back whole
   * for training. Only the envelope is checked.
   *
   * Sampling is expensive, so a call is retried only if the service did not answer it: no connection, 408, 429 or 503.
   * It is not retried after a broken connection, a timeout or another 5xx.
   *
   * @throws RequestError, or the reason of `signal`.
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
    return this.requester.transport.send(this.#call(request, options), (answer) => {
      const value = parseJson(answer);
      if (isCompletion(value)) return value;
      const detail = `not a completion: ${excerpt(answer.text)}`;
      throw new RequestError('bad_response', { ...answer.facts, detail });
    });
  }

  async #stream(
    request: ChatCompletionRequest,
    options: CallOptions,
  ): Promise<AsyncIterableIterator<ChatCompletionChunk>> {
    const call = { ...this.#call(request, options), headers: { accept: 'text/event-stream' } };
    const answer = await this.requester.transport.open(call);
    if (answer.contentType.startsWith('text/event-stream')) return readChunks(answer);
    const detail = `not an event stream: ${excerpt(await answer.beginning())}`;
    throw new RequestError('bad_response', { ...answer.facts, detail });
  }

  #call(request: ChatCompletionRequest, options: CallOptions): Call {
    const body = JSON.stringify(chatBody(this.requester.dialect, request));
    return this.requester.callOf(options, {
      method: 'POST',
      path: '/chat/completions',
      body,
      repeat: 'unanswered',
    });
  }
}
