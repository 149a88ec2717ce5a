import type { TrainRequest, Weights } from '../../engine.ts';
import { BaseModels } from '../base-models.ts';
import type { GraphCall, TrainerCall, WorkerSettings } from '../threads/worker-messages.ts';
import { WorkerThread, workerModule } from '../threads/worker-thread.ts';
import { train } from './train.ts';

/**
 * The threads that train; they start when they are needed. One does everything but the runs of a tiny model's graphs:
 * unless `settings.threads` is 1, these are shared among that many threads of their own, each on one core. For small
 * models that is faster than one thread whose matrix products use several cores. A checkpoint's graphs run in the one
 * thread with all cores in each product: threads of their own would each read all weights.
 */
export class TrainerThreads {
  readonly #models: BaseModels;
  readonly #trainer: WorkerThread<TrainerCall>;
  readonly #graphs: readonly WorkerThread<GraphCall>[];

  constructor(settings: WorkerSettings) {
    this.#models = new BaseModels(settings.checkpoints);
    this.#trainer = new WorkerThread(workerModule('../trainer/worker'), settings);
    const own: WorkerSettings = { ...settings, device: 'cpu', threads: 1 };
    this.#graphs = Array.from(
      { length: settings.threads > 1 ? settings.threads : 0 },
      () => new WorkerThread(workerModule('../trainer/graph-worker'), own),
    );
  }

  /** Tests the graphs of each checkpoint in the first thread, see `selfTest`. */
  async test(signal?: AbortSignal): Promise<void> {
    for (const { id, isSmall } of this.#models.all)
      if (!isSmall) await this.#trainer.call({ type: 'self-test', baseModel: id }, { signal });
  }

  /** Trains one job; call it again when it has settled. */
  train(request: TrainRequest): Promise<void> {
    const isSmall = (baseModel: string) => this.#models.find(baseModel).isSmall;
    const graphs = isSmall(request.from.baseModel) ? this.#graphs.map((thread) => thread.running) : [];
    const graphsOfTeacher = (baseModel: string) => (isSmall(baseModel) ? graphs : []);
    return train({ trainer: this.#trainer.running, graphs, graphsOfTeacher }, request);
  }

  /** Keeps nothing of a checkpoint for the next job. Does not wait for the thread. */
  drop(weights: Weights): void {
    this.#trainer.tell({ type: 'drop', weights });
  }

  async close(): Promise<void> {
    await Promise.all([this.#trainer, ...this.#graphs].map((thread) => thread.close()));
  }
}
