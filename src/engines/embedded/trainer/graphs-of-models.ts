import type { BaseModels } from '../base-models.ts';
import { BatchGraphs } from '../runner/batch-runner.ts';
import type { Runtime } from '../runtime.ts';

/** The training graphs of base models, on the CPU or on the device of the checkpoints. */
export class GraphsOfModels {
  readonly #models: BaseModels;
  readonly #runtimes: { tiny: Runtime; checkpoint: Runtime };
  /** Those of the last job, for the next one. They keep the memory of their largest runs. */
  #last: { baseModel: string; graphs: Promise<BatchGraphs> } | undefined;

  constructor(models: BaseModels, runtimes: { tiny: Runtime; checkpoint: Runtime }) {
    this.#models = models;
    this.#runtimes = runtimes;
  }

  /** Nothing may be running on the graphs of another model. */
  async of(baseModel: string): Promise<BatchGraphs> {
    if (this.#last?.baseModel !== baseModel) {
      await this.close();
      const { kind, trained, ...base } = this.#models.find(baseModel);
      const last = { baseModel, graphs: BatchGraphs.create(this.#runtimes[kind], base, trained) };
      this.#last = last;
      // The next job tries again.
      last.graphs.catch(() => {
        if (this.#last === last) this.#last = undefined;
      });
    }
    return this.#last.graphs;
  }

  /** Releases the graphs. Nothing may be running. */
  async close(): Promise<void> {
    const last = this.#last;
    this.#last = undefined;
    await last?.graphs.then(
      (graphs) => graphs.release(),
      () => undefined,
    );
  }
}
