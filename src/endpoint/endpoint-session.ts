import { AsyncLocalStorage } from 'node:async_hooks';
import type { EndpointModel } from './endpoint-model.ts';
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
