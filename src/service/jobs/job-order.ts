import { FairQueue } from '../../util/fair-queue.ts';
import type { ServiceError } from '../errors.ts';
import type { WaitingJob } from '../store/store.ts';
import { firstPauseMs, longestPauseMs } from './recovery.ts';

/** From so many lost runs on, a job lets pass what was there when the service started. */
const suspectLostRuns = 3;

/** A job that the machine did not let run, or the engine broke down under. */
interface Aside {
  jobId: string;
  fault: ServiceError;
  /** When it is tried again. */
  dueAt: number;
  tries: number;
  engineDeaths: number;
}

export type NextJob =
  | { type: 'run'; job: WaitingJob }
  /** For the first of those that are set aside. */
  | { type: 'wait'; fault: ServiceError; pauseMs: number }
  | { type: 'nothing' };

/**
 * Which job is next: models take turns, and the jobs of a model keep their order. A model whose first job is set
 * aside loses its turn until the pause is over; a job that may have ended the process before comes behind the others.
 */
export class JobOrder {
  readonly #newestAtStart: number;
  readonly #now: () => number;
  /** By model. */
  readonly #aside = new Map<string, Aside>();
  /** Models take turns: each waits here for its first job. */
  readonly #models = new FairQueue<string>();

  /** `newestAtStart`: the place of the newest job then. `now`: a clock in milliseconds that never goes back. */
  constructor({
    newestAtStart,
    now = () => performance.now(),
  }: { newestAtStart: number; now?: () => number }) {
    this.#newestAtStart = newestAtStart;
    this.#now = now;
  }

  /** Chooses among the first jobs of the models, oldest first, and counts it as the model's turn. */
  next(first: readonly WaitingJob[]): NextJob {
    this.#forgetAllBut(first);
    const now = this.#now();
    const ready = first.filter(({ modelId }) => (this.#aside.get(modelId)?.dueAt ?? now) <= now);
    const eligible = new Map(this.#withoutSuspects(ready).map((job) => [job.modelId, job]));
    const models = new Set(first.map(({ modelId }) => modelId));
    this.#models.remove((modelId) => !models.has(modelId));
    for (const modelId of models)
      if (this.#models.countOf(modelId) === 0) this.#models.add(modelId, { tenant: modelId });
    const job = eligible.get(this.#models.take((modelId) => eligible.has(modelId)) ?? '');
    if (job) return { type: 'run', job };
    const [soonest] = [...this.#aside.values()].sort((one, other) => one.dueAt - other.dueAt);
    return soonest
      ? { type: 'wait', fault: soonest.fault, pauseMs: soonest.dueAt - now }
      : { type: 'nothing' };
  }

  /** Sets a job aside; returns for how long. */
  setAside(
    { id, modelId }: WaitingJob,
    fault: ServiceError,
    { engineDied }: { engineDied: boolean },
  ): number {
    const before = this.#aside.get(modelId);
    const { tries, engineDeaths } = before?.jobId === id ? before : { tries: 0, engineDeaths: 0 };
    const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** tries);
    this.#aside.set(modelId, {
      jobId: id,
      fault,
      dueAt: this.#now() + pauseMs,
      tries: tries + 1,
      engineDeaths: engineDeaths + (engineDied ? 1 : 0),
    });
    return pauseMs;
  }

  /** How often the engine broke down under the job. */
  engineDeaths({ id, modelId }: WaitingJob): number {
    const aside = this.#aside.get(modelId);
    return aside?.jobId === id ? aside.engineDeaths : 0;
  }

  /** Ends all pauses. */
  tryNow(): void {
    for (const aside of this.#aside.values()) aside.dueAt = 0;
  }

  /** They come behind those of other models that were there at the start, not behind all that ever come. */
  #withoutSuspects(ready: readonly WaitingJob[]): readonly WaitingJob[] {
    const others = ready.filter(({ lostRuns }) => lostRuns < suspectLostRuns);
    return others.some(({ sequence }) => sequence <= this.#newestAtStart) ? others : ready;
  }

  #forgetAllBut(first: readonly WaitingJob[]): void {
    const ids = new Set(first.map(({ id }) => id));
    for (const [modelId, { jobId }] of this.#aside) if (!ids.has(jobId)) this.#aside.delete(modelId);
  }
}
