import { AsyncLocalStorage } from 'node:async_hooks';
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  Choice,
  Tool,
  ToolCall,
  Usage,
} from '../contract/index.ts';
import type { PromptMessages } from '../trajectory/index.ts';
import { ResponseMemory } from './responses/response-memory.ts';

/** A model call, independent of its protocol. */
export interface ModelRequest {
  /** All fields except `messages`, `model`, `seed` and `stream`. */
  settings: Omit<ChatCompletionRequest, 'messages' | 'model' | 'seed' | 'stream'>;
  tools: Tool[] | undefined;
  prompt: PromptMessages;
  /** Default: the rollout's seed for the call. */
  seed: number | undefined;
  signal: AbortSignal | undefined;
}

export interface WholeAnswer {
  completion: ChatCompletion;
  choice: Choice;
  /** Identifies the call in its trajectory; undefined if it is not recorded. */
  callId: string | undefined;
}

export interface StreamedAnswer {
  callId: string | undefined;
  /** The reply assembled from the chunks read so far. */
  reply: {
    readonly toolCalls: readonly ToolCall[];
    /** @throws if the stream ended without a finish reason. */
    complete(): { choice: Choice; usage: Usage | undefined };
  };
  /** The call is recorded when the chunks end. */
  chunks: AsyncGenerator<ChatCompletionChunk, void, undefined>;
}

/** The model of a key. Its calls are recorded in the trajectory of their async scope. */
export interface EndpointModel {
  /** Pinned name of the model. */
  readonly name: string;
  answer(request: ModelRequest): Promise<WholeAnswer>;
  /** Resolves when the service has accepted the call. */
  answerStreamed(request: ModelRequest): Promise<StreamedAnswer>;
}

/** A call of a session. The client, the end of the session and the call itself can abort it. */
export interface SessionCall {
  readonly signal: AbortSignal;
  abort(reason: unknown): void;
  /** Must be called when the call ends, successful or not. */
  leave(): void;
}

/** The state of one key: its model, the async scope of its trajectory, and the stored responses. */
export class EndpointSession {
  readonly apiKey: string;
  readonly model: EndpointModel;
  readonly responses = new ResponseMemory();
  /** Runs a function in the async scope that created the key: in its trajectory and under its span. */
  readonly run: <Result>(work: () => Result) => Result = AsyncLocalStorage.snapshot();
  readonly #calls = new Set<AbortController>();

  constructor(apiKey: string, model: EndpointModel) {
    this.apiKey = apiKey;
    this.model = model;
  }

  join(client: AbortSignal): SessionCall {
    const controller = new AbortController();
    const onDisconnect = () => controller.abort(client.reason);
    const leave = () => {
      this.#calls.delete(controller);
      client.removeEventListener('abort', onDisconnect);
    };
    this.#calls.add(controller);
    if (client.aborted) onDisconnect();
    else client.addEventListener('abort', onDisconnect, { once: true });
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

/** A streamed answer whose client may disconnect. */
export interface AbandonableAnswer extends StreamedAnswer {
  /** Ends the call if the chunks are not read to their end. */
  abandon: () => void;
}

/** Answers with the whole reply, after recording it. `client` aborts when the agent disconnects. */
export async function answerComplete(
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

/** Streams the reply. A failure before the first chunk is thrown here, so that it can still set the HTTP status. */
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
    const abandon = () => call.abort(new Error('The client disconnected.'));
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
    // An aborted reply must not look complete.
    call.signal.throwIfAborted();
  } catch (error) {
    throw causeOf(error, call);
  } finally {
    call.leave();
  }
}

/** The reason of the abort, which is more specific than the error that it caused. */
function causeOf(error: unknown, { signal }: SessionCall): unknown {
  return signal.aborted ? signal.reason : error;
}

const headers = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Stops proxies from buffering the events.
  'x-accel-buffering': 'no',
};

/** Answers with server-sent events, produced as the client reads them. `abandon` runs when the client disconnects. */
export function eventStream(frames: AsyncGenerator<string>, abandon: () => void): Response {
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await frames.next();
      if (next.done) controller.close();
      else controller.enqueue(encoder.encode(next.value));
    },
    async cancel() {
      abandon();
      await frames.return(undefined);
    },
  });
  return new Response(body, { headers });
}

export const dataFrame = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`;
export const eventFrame = (type: string, data: object) => `event: ${type}\n${dataFrame(data)}`;
