import { z } from 'zod';
import { OptionError } from '../../util/option-error.ts';
import { ScenarioError } from '../errors.ts';
import { type Cursor, type Extent, readState, type Stage, type StageDescription } from './stage.ts';

const stateSchema = z.object({ epoch: z.int().nonnegative(), of: z.unknown() });

/** Repeats a stage; each pass is its next epoch. */
export class RepeatStage<Scenario> implements Stage<Scenario> {
  readonly learns = false;
  readonly #of: Stage<Scenario>;
  readonly #epochs: number;

  /** `epochs` may be Infinity. */
  constructor(of: Stage<Scenario>, epochs: number) {
    if (of.learns) {
      throw new OptionError(
        'invalid_scenario_set',
        '`.repeat()` begins its set anew each epoch, and what `.byDifficulty()` has learnt would be lost. Put ' +
          '`.byDifficulty()` after `.repeat()`.',
        { option: 'epochs', value: epochs },
      );
    }
    this.#of = of;
    this.#epochs = epochs;
  }

  get extent(): Extent {
    return this.#epochs === Number.POSITIVE_INFINITY ? 'infinite' : this.#of.extent;
  }

  /** An endless repetition has the size of one epoch. */
  get size(): number | null {
    if (this.#of.size === null) return null;
    return Number.isFinite(this.#epochs) ? this.#of.size * this.#epochs : this.#of.size;
  }

  describe(): StageDescription {
    const epochs = Number.isFinite(this.#epochs) ? this.#epochs : null;
    return { kind: 'repeat', epochs, of: this.#of.describe() };
  }

  open(outer: number): Cursor<Scenario> {
    const first = Number.isFinite(this.#epochs) ? outer * this.#epochs : 0;
    let epoch = 0;
    let pass = this.#of.open(first);
    let isEmpty = true;
    return {
      next: async () => {
        for (;;) {
          const drawn = await pass.next();
          if (drawn) {
            isEmpty = false;
            return drawn;
          }
          if (epoch + 1 >= this.#epochs) return null;
          if (isEmpty && this.#epochs === Number.POSITIVE_INFINITY) {
            throw new ScenarioError(
              'invalid_scenario_set',
              `Epoch ${epoch} of a set that repeats forever gave no scenario: there is nothing to draw. Look at ` +
                'what it is made from, and at its filters.',
            );
          }
          await pass.close();
          epoch++;
          isEmpty = true;
          pass = this.#of.open(first + epoch);
        }
      },
      state: () => ({ epoch, of: pass.state() }),
      restore: async (state) => {
        const saved = readState('repeat', stateSchema, state);
        await pass.close();
        epoch = saved.epoch;
        pass = this.#of.open(first + epoch);
        await pass.restore(saved.of);
        // The state does not say whether the saved pass was empty; the next epoch finds out.
        isEmpty = false;
      },
      observe: () => undefined,
      reports: () => [],
      close: () => pass.close(),
    };
  }
}
