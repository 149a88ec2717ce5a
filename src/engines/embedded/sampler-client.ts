import type {
  BeamSearchRequest,
  GenerateRequest,
  Generation,
  GenerationDelta,
  ScoredToken,
  ScorePromptRequest,
  Weights,
} from '../engine.ts';
import type {
  Planned,
  SamplerCall,
  SamplerReport,
  SamplerRequest,
  WorkerSettings,
} from './threads/worker-messages.ts';
import { fromFailure } from './threads/worker-messages.ts';
import { Outstanding, WorkerThread, workerModule } from './threads/worker-thread.ts';

/** Sends calls to the sampler's thread and receives their answers. */
export class SamplerClient {
  readonly #thread: WorkerThread<SamplerRequest, SamplerReport>;
  readonly #calls = new Outstanding<unknown>();
  readonly #streams = new Map<number, (delta: GenerationDelta) => void>();
  #ids = 0;

  constructor(settings: WorkerSettings) {
    this.#thread = new WorkerThread(workerModule('../sampler/worker'), settings, {
      onReport: (report) => this.#receive(report),
      onDeath: (error) => this.#calls.rejectAll(error),
    });
  }

  async generate(
    { signal, ...request }: Planned<GenerateRequest> & Pick<GenerateRequest, 'signal'>,
    onDelta?: (delta: GenerationDelta) => void,
  ): Promise<Generation> {
    const id = this.#ids++;
    if (onDelta) this.#streams.set(id, onDelta);
    try {
      const stream = onDelta !== undefined;
      return await this.#call(id, { type: 'generate', request, stream }, signal);
    } finally {
      this.#streams.delete(id);
    }
  }

  search({
    signal,
    ...request
  }: Planned<BeamSearchRequest> & Pick<BeamSearchRequest, 'signal'>): Promise<Generation[]> {
    return this.#call(this.#ids++, { type: 'search', request }, signal);
  }

  score({ signal, ...request }: ScorePromptRequest): Promise<(ScoredToken | null)[]> {
    return this.#call(this.#ids++, { type: 'score', request }, signal);
  }

  drop(weights: Weights): Promise<void> {
    return this.#thread.send({ type: 'drop', weights });
  }

  /** Starts the thread; returns the name of its runtime. */
  async start(): Promise<string | undefined> {
    await this.#thread.start();
    return this.#thread.runtime;
  }

  check(): Promise<void> {
    return this.#thread.check();
  }

  close(): Promise<void> {
    return this.#thread.close();
  }

  /** Sends a call and waits for its answer. When the signal aborts, rejects at once and cancels the call. */
  async #call<Result>(id: number, call: SamplerCall, signal: AbortSignal | undefined): Promise<Result> {
    signal?.throwIfAborted();
    const cancel = () => {
      this.#calls.reject(id, signal?.reason);
      this.#cancel(id);
    };
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      const answer = this.#calls.wait(id);
      this.#thread.send({ ...call, id }).catch((error: unknown) => this.#calls.reject(id, error));
      return (await answer) as Result;
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  #receive({ deltas, finished, failed }: SamplerReport): void {
    for (const { id, delta } of deltas) this.#stream(id, delta);
    for (const { id, result } of finished) this.#calls.resolve(id, result);
    for (const { id, failure } of failed) this.#calls.reject(id, fromFailure(failure));
  }

  /** A listener that throws fails only its own request; the other listeners still get their deltas. */
  #stream(id: number, delta: GenerationDelta): void {
    try {
      this.#streams.get(id)?.(delta);
    } catch (error) {
      this.#streams.delete(id);
      this.#calls.reject(id, error);
      this.#cancel(id);
    }
  }

  #cancel(id: number): void {
    this.#thread.send({ type: 'cancel', id }).catch(() => undefined);
  }
}
