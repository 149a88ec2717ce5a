import { AsyncLocalStorage } from 'node:async_hooks';
import type { ChatCompletionChunk } from '../contract/index.ts';
import type { EndpointModel, ModelRequest, StreamedAnswer, WholeAnswer } from './endpoint-model.ts';
import { ResponseMemory } from './responses/response-memory.ts';

/** A call of a session: its client, the session's end and the call itself can abort it. */
export interface SessionCall {
  readonly signal: AbortSignal;
  abort(reason: unknown): void;
  /** Call it when the call is over, however it ended. */
  leave(): void;
}

/** The state behind one key: a model, the trajectory that its calls belong to, and the stored responses. */
export class EndpointSession {
  readonly apiKey: string;
  readonly model: EndpointModel;
  readonly responses = new ResponseMemory();
  /** Runs a function in the async scope that created the key: in its trajectory, with its span as the parent. */
  readonly run: <Result>(work: () => Result) => Result = AsyncLocalStorage.snapshot();
  readonly #calls = new Set<AbortController>();

  constructor(apiKey: string, model: EndpointModel) {
    this.apiKey = apiKey;
    this.model = model;
  }

  join(client: AbortSignal): SessionCall {
    const controller = new AbortController();
    const onGone = () => controller.abort(client.reason);
    const leave = () => {
      this.#calls.delete(controller);
      client.removeEventListener('abort', onGone);
    };
    this.#calls.add(controller);
    if (client.aborted) onGone();
    else client.addEventListener('abort', onGone, { once: true });
    const abort = (reason: unknown) => {
      controller.abort(reason);
      leave();
    };
    return { signal: controller.signal, abort, leave };
  }

  /** Aborts the calls in flight. */
  end(reason: Error): void {
    for (const call of this.#calls) call.abort(reason);
    this.#calls.clear();
  }
}

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
