import { AsyncResource } from 'node:async_hooks';
import type { ServerResponse } from 'node:http';
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
import { ResponseMemory } from './response-memory.ts';

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
  /** Number of tokens of the request's prompt. The call is not recorded. */
  countTokens(request: ModelRequest): Promise<number>;
}

/** A call of a session. It is aborted when its client disconnects and when the session ends. */
interface SessionCall {
  readonly signal: AbortSignal;
  /** Must be called when the call ends, successful or not. */
  leave(): void;
}

/** The state of one key: its model, the async scope of its trajectory, and the stored responses. */
export class EndpointSession {
  readonly apiKey: string;
  readonly model: EndpointModel;
  readonly responses = new ResponseMemory();
  readonly #scope = new AsyncResource('martingale.endpoint');
  readonly #calls = new Set<AbortController>();

  constructor(apiKey: string, model: EndpointModel) {
    this.apiKey = apiKey;
    this.model = model;
  }

  /** Runs a function in the async scope that created the key: in its trajectory and under its span. */
  run<Result>(work: () => Result): Result {
    return this.#scope.runInAsyncScope(work);
  }

  /** Begins a call, which ends early when its client disconnects. */
  join(client: ServerResponse): SessionCall {
    const controller = new AbortController();
    const onDisconnect = () => controller.abort(new Error('The client disconnected.'));
    this.#calls.add(controller);
    if (client.closed) onDisconnect();
    else client.once('close', onDisconnect);
    const leave = () => {
      this.#calls.delete(controller);
      client.off('close', onDisconnect);
    };
    return { signal: controller.signal, leave };
  }

  get hasCalls(): boolean {
    return this.#calls.size > 0;
  }

  /** Aborts the calls in flight. */
  end(reason: Error): void {
    for (const call of this.#calls) call.abort(reason);
    this.#calls.clear();
  }
}

export type EndpointRequest = Omit<ModelRequest, 'signal'>;

/** Answers with the whole reply, after recording it. */
export const answerComplete = (
  session: EndpointSession,
  client: ServerResponse,
  request: EndpointRequest,
): Promise<WholeAnswer> =>
  answered(session, client, (signal) => session.model.answer({ ...request, signal }));

/** Counts the tokens of the prompt. */
export const countPrompt = (
  session: EndpointSession,
  client: ServerResponse,
  request: EndpointRequest,
): Promise<number> =>
  answered(session, client, (signal) => session.model.countTokens({ ...request, signal }));

async function answered<Answer>(
  session: EndpointSession,
  client: ServerResponse,
  ask: (signal: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  const call = session.join(client);
  try {
    return await session.run(() => ask(call.signal));
  } catch (error) {
    throw causeOf(error, call);
  } finally {
    call.leave();
  }
}

/** Streams the reply. A failure before the first chunk is thrown here, so that it can still set the HTTP status. */
export async function answerStreamed(
  session: EndpointSession,
  client: ServerResponse,
  request: EndpointRequest,
): Promise<StreamedAnswer> {
  const call = session.join(client);
  try {
    const { chunks, ...answer } = await session.run(() =>
      session.model.answerStreamed({ ...request, signal: call.signal }),
    );
    const first = await chunks.next();
    const stop = () => void chunks.return().catch(() => undefined);
    if (call.signal.aborted) stop();
    else call.signal.addEventListener('abort', stop, { once: true });
    return { ...answer, chunks: from(first, chunks, call) };
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
