import type { GenerateRequest, Generation, GenerationDelta, Weights } from '../engine.ts';
import { fromFailure } from './worker-failure.ts';
import type { SamplerReport, SamplerRequest, WorkerSettings } from './worker-messages.ts';
import { workerModule } from './worker-module.ts';
import { WorkerThread } from './worker-thread.ts';

interface Waiting {
  resolve: (generation: Generation) => void;
  reject: (error: unknown) => void;
  onDelta: ((delta: GenerationDelta) => void) | undefined;
}

/** The sampler's thread, as the rest of the engine uses it. */
export class SamplerClient {
  readonly #thread: WorkerThread<SamplerRequest, SamplerReport>;
  readonly #waiting = new Map<number, Waiting>();
  #ids = 0;

  constructor(settings: WorkerSettings) {
    this.#thread = new WorkerThread(workerModule('./sampler/worker'), settings, {
      onReport: (report) => this.#receive(report),
      onDeath: (error) => {
        for (const { reject } of this.#waiting.values()) reject(error);
        this.#waiting.clear();
      },
    });
  }

  async generate(
    { signal, ...request }: GenerateRequest,
    onDelta?: (delta: GenerationDelta) => void,
  ): Promise<Generation> {
    signal?.throwIfAborted();
    const id = this.#ids++;
    const cancel = () => {
      this.#take(id)?.reject(signal?.reason);
      void this.#thread.send({ type: 'cancel', id }).catch(() => undefined);
    };
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      return await new Promise<Generation>((resolve, reject) => {
        this.#waiting.set(id, { resolve, reject, onDelta });
        this.#thread
          .send({ type: 'generate', id, request, stream: onDelta !== undefined })
          .catch((error: unknown) => this.#take(id)?.reject(error));
      });
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  drop(weights: Weights): Promise<void> {
    return this.#thread.send({ type: 'drop', weights });
  }

  /** Starts the thread; returns the name of the runtime that it found. */
  async start(): Promise<string | undefined> {
    await this.#thread.start();
    return this.#thread.runtime;
  }

  close(): Promise<void> {
    return this.#thread.close();
  }

  #receive({ deltas, finished, failed }: SamplerReport): void {
    for (const { id, delta } of deltas) this.#waiting.get(id)?.onDelta?.(delta);
    for (const { id, generation } of finished) this.#take(id)?.resolve(generation);
    for (const { id, failure } of failed) this.#take(id)?.reject(fromFailure(failure));
  }

  #take(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }
}
