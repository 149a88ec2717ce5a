import type { BaseModels } from '../base-models.ts';
import { BatchGraphs } from '../runner/batch-runner.ts';
import type { Runtime } from '../runtime.ts';

/** The training graphs of base models: of small ones on the CPU, of others on the device. */
export class GraphsOfModels {
  readonly #models: BaseModels;
  readonly #runtimes: { cpu: Runtime; device: Runtime };
  /** Graphs of the last job and its teacher, for the next job. They keep the memory of their largest runs. */
  readonly #kept = new Map<string, Promise<BatchGraphs>>();

  constructor(models: BaseModels, runtimes: { cpu: Runtime; device: Runtime }) {
    this.#models = models;
    this.#runtimes = runtimes;
  }

  /**
   * The graphs of a model. Making new ones releases the graphs of all other models but `beside`; nothing may be running on
   * them.
   */
  async hold(baseModel: string, { beside }: { beside?: string | undefined } = {}): Promise<BatchGraphs> {
    const kept = this.#kept.get(baseModel);
    if (kept) return kept;
    for (const other of [...this.#kept.keys()]) if (other !== beside) await this.#release(other);
    const { isSmall, trained, ...base } = this.#models.find(baseModel);
    const graphs = BatchGraphs.create(isSmall ? this.#runtimes.cpu : this.#runtimes.device, base, trained);
    this.#kept.set(baseModel, graphs);
    // The next job tries again.
    graphs.catch(() => {
      if (this.#kept.get(baseModel) === graphs) this.#kept.delete(baseModel);
    });
    return graphs;
  }

  /** Releases the graphs. Nothing may be running. */
  async close(): Promise<void> {
    for (const baseModel of [...this.#kept.keys()]) await this.#release(baseModel);
  }

  async #release(baseModel: string): Promise<void> {
    const graphs = this.#kept.get(baseModel);
    this.#kept.delete(baseModel);
    await graphs?.then(
      (created) => created.release(),
      () => undefined,
    );
  }
}
