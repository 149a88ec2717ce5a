import { FairQueue } from '../../util/fair-queue.ts';
import type { ServiceError } from '../errors.ts';
import type { WaitingJob } from '../store/store.ts';
import { firstPauseMs, maxPauseMs } from './recovery.ts';

/** From this weight of lost runs on, a job waits for the jobs that were queued when the service started. */
const suspectLostRuns = 1;

/** A job that waits after a fault of the machine or a death of the engine. */
interface PausedJob {
  jobId: string;
  fault: ServiceError;
  /** When it is tried again, in milliseconds of `now`. */
  dueAt: number;
  tries: number;
  engineDeaths: number;
}

export type NextJob =
  | { type: 'run'; job: WaitingJob }
  /** Until the next job that is set aside is due. */
  | { type: 'wait'; fault: ServiceError; pauseMs: number }
  | { type: 'nothing' };

/**
 * Chooses the next job. Models take turns, and the jobs of a model keep their order. A model whose first job is set
 * aside is skipped until the pause is over. A job that may have killed the process before runs after the others.
 */
export class JobOrder {
  readonly #newestAtStart: number;
  readonly #now: () => number;
  /** By model id. */
  readonly #aside = new Map<string, PausedJob>();
  /** Each model waits here with its first job, as its own tenant. */
  readonly #models = new FairQueue<string>();

  /** `newestAtStart`: `sequence` of the newest job when the service started. `now`: a monotonic clock, in ms. */
  constructor({
    newestAtStart,
    now = () => performance.now(),
  }: { newestAtStart: number; now?: () => number }) {
    this.#newestAtStart = newestAtStart;
    this.#now = now;
  }

  /** Chooses among the first jobs of the models, given oldest first. The chosen job uses up its model's turn. */
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

  /** Sets a job aside; returns the pause in milliseconds. */
  setAside(
    { id, modelId }: WaitingJob,
    fault: ServiceError,
    { engineDied }: { engineDied: boolean },
  ): number {
    const before = this.#aside.get(modelId);
    const { tries, engineDeaths } = before?.jobId === id ? before : { tries: 0, engineDeaths: 0 };
    const pauseMs = Math.min(maxPauseMs, firstPauseMs * 2 ** tries);
    this.#aside.set(modelId, {
      jobId: id,
      fault,
      dueAt: this.#now() + pauseMs,
      tries: tries + 1,
      engineDeaths: engineDeaths + (engineDied ? 1 : 0),
    });
    return pauseMs;
  }

  /** How often the engine died while it ran the job. */
  engineDeaths({ id, modelId }: WaitingJob): number {
    const aside = this.#aside.get(modelId);
    return aside?.jobId === id ? aside.engineDeaths : 0;
  }

  /** Ends all pauses. */
  tryNow(): void {
    for (const aside of this.#aside.values()) aside.dueAt = 0;
  }

  /** Suspect jobs wait only for jobs that were queued at the start, so that new jobs cannot delay them forever. */
  #withoutSuspects(ready: readonly WaitingJob[]): readonly WaitingJob[] {
    const others = ready.filter(({ lostRuns }) => lostRuns < suspectLostRuns);
    return others.some(({ sequence }) => sequence <= this.#newestAtStart) ? others : ready;
  }

  #forgetAllBut(first: readonly WaitingJob[]): void {
    const ids = new Set(first.map(({ id }) => id));
    for (const [modelId, { jobId }] of this.#aside) if (!ids.has(jobId)) this.#aside.delete(modelId);
  }
}
