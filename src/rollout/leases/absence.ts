import type { RolloutFailure } from '../rollout.ts';
import type { WorkerEvent } from './worker-event.ts';

interface AbsenceOptions {
  waitForWorkersMs: number;
  onEvent: (event: WorkerEvent) => void;
}

/** When the program is told that it has no worker. */
const tellMs = 10_000;

/** How long rollouts have waited without any worker. */
export class Absence {
  readonly #options: AbsenceOptions;
  #since: number | undefined;
  #isTold = false;
  /** How a worker is started, as a sentence. */
  howToStart = 'Start one: martingale worker <file> --url <url>.';

  constructor(options: AbsenceOptions) {
    this.#options = options;
  }

  /** Gives the failure of all rollouts that wait, when they have waited for too long. */
  look(now: number, { workers, waiting }: { workers: number; waiting: number }): RolloutFailure | undefined {
    if (workers > 0 || waiting === 0) {
      this.end();
      return undefined;
    }
    this.#since ??= now;
    const { waitForWorkersMs, onEvent } = this.#options;
    const aloneMs = now - this.#since;
    if (aloneMs >= Math.min(tellMs, waitForWorkersMs) && !this.#isTold) {
      this.#isTold = true;
      const message = `${waiting} rollouts wait, and there is no worker. ${this.howToStart}`;
      onEvent({ type: 'none', worker: '', message });
    }
    if (aloneMs < waitForWorkersMs) return undefined;
    const message = `No worker has joined for ${waitForWorkersMs} ms. ${this.howToStart}`;
    return { code: 'no_workers', message };
  }

  /** A worker has come, or nothing waits. */
  end(): void {
    this.#since = undefined;
    this.#isTold = false;
  }
}
