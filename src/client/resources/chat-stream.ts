import type { ChatCompletionChunk } from '../../contract/index.ts';
import type { OpenAnswer } from '../call.ts';
import { BadResponseError, ConnectionError, ServiceError } from '../errors.ts';
import { parseJson } from '../parse.ts';
import { readEventStream } from '../sse.ts';
import { excerpt, readErrorBody } from '../status-error.ts';
import { isChunk, isObject } from './envelope.ts';

/**
 * The chunks of a streamed completion.
 *
 * @throws ServiceError where the service reports a failure in the middle, ConnectionError where the stream ends
 * without `[DONE]`: what came until then is not a whole completion; ResponseTooLargeError where it does not end.
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
