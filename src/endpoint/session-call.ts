import type { ChatCompletionChunk } from '../contract/index.ts';
import type { ModelRequest, StreamedAnswer, WholeAnswer } from './endpoint-model.ts';
import type { EndpointSession, SessionCall } from './endpoint-session.ts';

export type EndpointRequest = Omit<ModelRequest, 'signal'>;

/** A streamed answer whose client may go away. */
export interface AbandonableAnswer extends StreamedAnswer {
  /** Ends the call where the chunks are not read to their end. */
  abandon: () => void;
}

/** The whole reply, recorded. `client` aborts when the agent no longer waits for it. */
export async function answerWhole(
  session: EndpointSession,
  client: AbortSignal,
  request: EndpointRequest,
): Promise<WholeAnswer> {
  const call = session.join(client);
  try {
    return await session.run(() => session.model.answer({ ...request, signal: call.signal }));
  } catch (error) {
    throw causeOf(error, call);
  } finally {
    call.leave();
  }
}

/** The reply as it is sampled. A failure before the first chunk is thrown here, so that it can still be a status. */
export async function answerStreamed(
  session: EndpointSession,
  client: AbortSignal,
  request: EndpointRequest,
): Promise<AbandonableAnswer> {
  const call = session.join(client);
  try {
    const { chunks, ...answer } = await session.run(() =>
      session.model.answerStreamed({ ...request, signal: call.signal }),
    );
    const first = await chunks.next();
    const stop = () => void chunks.return().catch(() => undefined);
    if (call.signal.aborted) stop();
    else call.signal.addEventListener('abort', stop, { once: true });
    const abandon = () => call.abort(new Error('The client went away.'));
    return { ...answer, chunks: from(first, chunks, call), abandon };
  } catch (error) {
    call.leave();
    throw causeOf(error, call);
  }
}

async function* from(
  first: IteratorResult<ChatCompletionChunk, void>,
  rest: AsyncGenerator<ChatCompletionChunk, void, undefined>,
  call: SessionCall,
): AsyncGenerator<ChatCompletionChunk, void, undefined> {
  try {
    if (first.done) return;
    yield first.value;
    yield* rest;
    // A reply that was cut short must not pass for a whole one.
    call.signal.throwIfAborted();
  } catch (error) {
    throw causeOf(error, call);
  } finally {
    call.leave();
  }
}

/** The reason of an aborted call: the error that the abort caused says less. */
function causeOf(error: unknown, { signal }: SessionCall): unknown {
  return signal.aborted ? signal.reason : error;
}
