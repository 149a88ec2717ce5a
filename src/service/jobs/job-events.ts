import { randomUUID } from 'node:crypto';
import type { TrainingEvent } from '../../contract/index.ts';
import type { JobOutcome, Store } from '../store/store.ts';

export type NewEvent = TrainingEvent extends infer Event
  ? Event extends TrainingEvent
    ? Omit<Event, 'id'>
    : never
  : never;

const withId = (event: NewEvent): TrainingEvent => ({ id: randomUUID(), ...event });

const isLastEvent = (event: TrainingEvent): boolean =>
  event.type === 'training_ended' || event.type === 'training_failed';

/** Stores the events of jobs, then wakes their followers (`follow`) in this process. */
export class JobEvents {
  readonly #store: Store;
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(store: Store) {
    this.#store = store;
  }

  async append(jobId: string, event: NewEvent): Promise<void> {
    await this.#store.appendEvent(jobId, withId(event));
    this.#announce(jobId);
  }

  async start(jobId: string, event: NewEvent | null): Promise<void> {
    await this.#store.startJob(jobId, new Date().toISOString(), event && withId(event));
    this.#announce(jobId);
  }

  /** Resolves to false, without an event, when the job has already ended or was deleted. */
  async finish(jobId: string, outcome: JobOutcome): Promise<boolean> {
    const event: NewEvent =
      outcome.status === 'succeeded'
        ? {
            type: 'training_ended',
            data: {
              step: outcome.checkpoint.step,
              checkpoint_id: outcome.checkpoint.id,
              ...(outcome.untrained && { untrained: outcome.untrained }),
            },
          }
        : {
            type: 'training_failed',
            data: {
              error_message: outcome.errorMessage,
              ...(outcome.reason === undefined ? {} : { reason: outcome.reason }),
            },
          };
    const finished = await this.#store.finishJob(jobId, new Date().toISOString(), outcome, withId(event));
    if (finished) this.#announce(jobId);
    return finished;
  }

  /**
   * Yields the job's events after the one with id `after`, then new ones, up to the last. An empty list means that
   * nothing happened for `idleMs`. Ends early when `signal` aborts.
   */
  async *follow(
    jobId: string,
    after: string | undefined,
    { signal, idleMs }: { signal: AbortSignal; idleMs: number },
  ): AsyncGenerator<TrainingEvent[]> {
    let cursor = after;
    while (!signal.aborted) {
      // Starts to wait before it reads, so that no event in between is missed.
      const { promise: next, resolve } = Promise.withResolvers<boolean>();
      const wake = () => resolve(true);
      const waiting = this.#waiting.get(jobId) ?? new Set();
      this.#waiting.set(jobId, waiting.add(wake));
      const end = () => resolve(false);
      const timer = setTimeout(end, idleMs);
      signal.addEventListener('abort', end, { once: true });
      try {
        // The model and its jobs may have been deleted.
        if (!(await this.#store.hasJob(jobId))) return;
        const { items } = await this.#store.events(jobId, { after: cursor, limit: 100, order: 'asc' });
        if (items.length > 0) yield items;
        const last = items.at(-1);
        if (last) {
          cursor = last.id;
          if (isLastEvent(last)) return;
          continue;
        }
        if (await this.#hasEnded(jobId, cursor)) return;
        if (!(await next)) yield [];
      } finally {
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
        waiting.delete(wake);
        if (waiting.size === 0) this.#waiting.delete(jobId);
      }
    }
  }

  /** Whether `cursor` is the job's last event, so that nothing more will come. */
  async #hasEnded(jobId: string, cursor: string | undefined): Promise<boolean> {
    const [last] = (await this.#store.events(jobId, { limit: 1, order: 'desc' })).items;
    return last !== undefined && last.id === cursor && isLastEvent(last);
  }

  #announce(jobId: string): void {
    for (const wake of this.#waiting.get(jobId) ?? []) wake();
  }
}
