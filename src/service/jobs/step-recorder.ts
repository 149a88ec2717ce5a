import type { JobEvents } from './job-events.ts';
import type { CountedBatch } from './prepared-job.ts';

/** Writes the `gradient_step` events of one run of a job, in order. */
export class StepRecorder {
  /** Figures of the last step so far. */
  last: Record<string, number> = {};
  readonly #events: JobEvents;
  readonly #jobId: string;
  readonly #fail: (error: unknown) => void;
  readonly #counts: Record<string, number>[] = [];
  #untold: number;
  #writing: Promise<void> = Promise.resolve();

  constructor(events: JobEvents, jobId: string, toldSteps: number, fail: (error: unknown) => void) {
    this.#events = events;
    this.#jobId = jobId;
    this.#untold = -toldSteps;
    this.#fail = fail;
  }

  async *counted(batches: AsyncIterable<CountedBatch>) {
    for await (const { batch, counts } of batches) {
      this.#counts.push({ ...counts, learning_rate: batch.learningRate });
      yield batch;
    }
  }

  record(metrics: Record<string, number>): void {
    const data = { ...metrics, ...this.#counts.shift() };
    // JSON has no NaN: it would arrive as null, which is no number.
    this.last = Object.fromEntries(Object.entries(data).filter(([, value]) => Number.isFinite(value)));
    if (this.#untold++ < 0) return;
    const event = { type: 'gradient_step', data: this.last } as const;
    this.#writing = this.#writing.then(() => this.#events.append(this.#jobId, event));
    this.#writing.catch(this.#fail);
  }

  async written(): Promise<void> {
    await this.#writing;
  }
}
