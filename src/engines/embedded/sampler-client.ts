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

/** The sampler's thread, as the rest of the engine uses it. */
export class SamplerClient {
  readonly #thread: WorkerThread<SamplerRequest, SamplerReport>;
  readonly #replies = new Outstanding<Generation>();
  readonly #searches = new Outstanding<Generation[]>();
  readonly #scores = new Outstanding<(ScoredToken | null)[]>();
  readonly #streams = new Map<number, (delta: GenerationDelta) => void>();
  #ids = 0;

  constructor(settings: WorkerSettings) {
    this.#thread = new WorkerThread(workerModule('../sampler/worker'), settings, {
      onReport: (report) => this.#receive(report),
      onDeath: (error) => {
        for (const outstanding of this.#outstanding) outstanding.rejectAll(error);
      },
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
      return await this.#call(id, { type: 'generate', request, stream }, this.#replies, signal);
    } finally {
      this.#streams.delete(id);
    }
  }

  search({
    signal,
    ...request
  }: Planned<BeamSearchRequest> & Pick<BeamSearchRequest, 'signal'>): Promise<Generation[]> {
    return this.#call(this.#ids++, { type: 'search', request }, this.#searches, signal);
  }

  score({ signal, ...request }: ScorePromptRequest): Promise<(ScoredToken | null)[]> {
    return this.#call(this.#ids++, { type: 'score', request }, this.#scores, signal);
  }

  drop(weights: Weights): Promise<void> {
    return this.#thread.send({ type: 'drop', weights });
  }

  /** Starts the thread; returns the name of the runtime that it found. */
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

  get #outstanding() {
    return [this.#replies, this.#searches, this.#scores];
  }

  /** Sends a call and waits for its answer. An aborted signal ends both at once. */
  async #call<Result>(
    id: number,
    call: SamplerCall,
    outstanding: Outstanding<Result>,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    signal?.throwIfAborted();
    const cancel = () => {
      outstanding.reject(id, signal?.reason);
      this.#cancel(id);
    };
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      const answer = outstanding.wait(id);
      this.#thread.send({ ...call, id }).catch((error: unknown) => outstanding.reject(id, error));
      return await answer;
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  #receive({ deltas, finished, searched, scored, failed }: SamplerReport): void {
    for (const { id, delta } of deltas) this.#stream(id, delta);
    for (const { id, generation } of finished) this.#replies.resolve(id, generation);
    for (const { id, generations } of searched) this.#searches.resolve(id, generations);
    for (const { id, tokens } of scored) this.#scores.resolve(id, tokens);
    for (const { id, failure } of failed)
      for (const outstanding of this.#outstanding) outstanding.reject(id, fromFailure(failure));
  }
  /** What a listener throws fails its own request; the others of the report are still told. */
  #stream(id: number, delta: GenerationDelta): void {
    try {
      this.#streams.get(id)?.(delta);
    } catch (error) {
      this.#streams.delete(id);
      this.#replies.reject(id, error);
      this.#cancel(id);
    }
  }

  #cancel(id: number): void {
    this.#thread.send({ type: 'cancel', id }).catch(() => undefined);
  }
}
