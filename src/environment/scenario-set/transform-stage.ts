import { ScenarioSetError } from './errors.ts';
import type { DrawnScenario } from './scenario-source.ts';
import { breathe, type Cursor, drawsPerBreath, type Stage, type StageDescription } from './stage.ts';

/** So many in a row without one that fits, and an endless set is taken to have none. */
const mostUnseen = 1_000_000;

interface TransformOptions<From, To> {
  of: Stage<From>;
  /** Draws of a pass, where the transformation keeps them countable. */
  size: number | null;
  description: StageDescription;
  /** Null leaves the scenario out. */
  apply: (drawn: DrawnScenario<From>) => Promise<DrawnScenario<To> | null>;
}

/** Changes or leaves out scenarios one by one, and knows nothing of those before. */
export class TransformStage<From, To> implements Stage<To> {
  readonly size: number | null;
  readonly #options: TransformOptions<From, To>;

  constructor(options: TransformOptions<From, To>) {
    this.size = options.size;
    this.#options = options;
  }

  get extent() {
    return this.#options.of.extent;
  }

  get learns(): boolean {
    return this.#options.of.learns;
  }

  describe(): StageDescription {
    return { ...this.#options.description, of: this.#options.of.describe() };
  }

  open(epoch: number): Cursor<To> {
    const { of, apply } = this.#options;
    const upstream = of.open(epoch);
    return {
      next: async () => {
        for (let unseen = 1; ; unseen++) {
          const drawn = await upstream.next();
          if (!drawn) return null;
          const changed = await apply(drawn);
          if (changed) return changed;
          if (unseen === mostUnseen) {
            throw new ScenarioSetError(
              `\`${this.#options.description.kind}\` let none of ${mostUnseen} scenarios in a row through: the set may ` +
                'have none that fits. Look at the filter or the split.',
            );
          }
          if (unseen % drawsPerBreath === 0) await breathe();
        }
      },
      state: () => upstream.state(),
      restore: (state) => upstream.restore(state),
      observe: (results) => upstream.observe(results),
      reports: () => upstream.reports(),
      close: () => upstream.close(),
    };
  }
}
