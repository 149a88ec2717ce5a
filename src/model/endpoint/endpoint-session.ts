import { AsyncLocalStorage } from 'node:async_hooks';
import type { PolicyCaller } from '../policy-caller.ts';
import type { SamplingOverride } from '../sampling-override.ts';
import { ResponseMemory } from './responses/response-memory.ts';

export interface EndpointSessionOptions {
  apiKey: string;
  caller: PolicyCaller;
  /** Wins over what agents ask for. */
  override: SamplingOverride;
}

/** A call's part in its session: it is cut short by its client, by itself, and when the session ends. */
export interface SessionCall {
  readonly signal: AbortSignal;
  abort(reason: unknown): void;
  /** To be called when the call is over, however it ended. */
  leave(): void;
}

/** What one key stands for: a model, the trajectory that its calls belong to, and what has been said under it. */
export class EndpointSession {
  readonly apiKey: string;
  readonly caller: PolicyCaller;
  readonly override: SamplingOverride;
  readonly responses = new ResponseMemory();
  /** Runs a function in the async scope that the key was asked for in: its trajectory, and its span as the parent. */
  readonly run: <Result>(work: () => Result) => Result = AsyncLocalStorage.snapshot();
  readonly #calls = new Set<AbortController>();

  constructor({ apiKey, caller, override }: EndpointSessionOptions) {
    this.apiKey = apiKey;
    this.caller = caller;
    this.override = override;
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

  /** Cuts short the calls in flight. */
  end(reason: Error): void {
    for (const call of this.#calls) call.abort(reason);
    this.#calls.clear();
  }
}
