import type { ChatCompletion, ChatCompletionChunk, Choice } from '../../contract/index.ts';
import type { StreamedChoice } from '../completion-stream.ts';
import type { PolicyRequest } from '../policy-caller.ts';
import type { EndpointSession, SessionCall } from './endpoint-session.ts';

export type EndpointRequest = Omit<PolicyRequest, 'signal'>;

export interface WholeAnswer {
  completion: ChatCompletion;
  choice: Choice;
  /** Names the call within its trajectory; undefined where it is not recorded. */
  callId: string | undefined;
}

export interface StreamedAnswer {
  callId: string | undefined;
  reply: StreamedChoice;
  /** Recorded by the time that they end. */
  chunks: AsyncGenerator<ChatCompletionChunk, void, undefined>;
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
    return await session.run(async () => {
      const begun = session.caller.begin({ ...request, signal: call.signal });
      return { ...(await session.caller.complete(begun)), callId: begun.callId };
    });
  } catch (error) {
    throw causeOf(error, call);
  } finally {
    call.leave();
  }
}

/** The reply as it comes. What fails before its first chunk is thrown here, so that it can still be a status. */
export async function answerStreamed(
  session: EndpointSession,
  client: AbortSignal,
  request: EndpointRequest,
): Promise<StreamedAnswer> {
  const call = session.join(client);
  try {
    const { callId, reply, chunks } = await session.run(async () => {
      const begun = session.caller.begin({ ...request, signal: call.signal });
      return { callId: begun.callId, ...(await session.caller.stream(begun)) };
    });
    const first = await chunks.next();
    const stop = () => void chunks.return().catch(() => undefined);
    if (call.signal.aborted) stop();
    else call.signal.addEventListener('abort', stop, { once: true });
    const abandon = () => call.abort(new Error('The client went away.'));
    return { callId, reply, chunks: from(first, chunks, call), abandon };
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

/** Of an aborted call the reason: what the abort broke on its way says less. */
function causeOf(error: unknown, { signal }: SessionCall): unknown {
  return signal.aborted ? signal.reason : error;
}
