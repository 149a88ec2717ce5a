import { z } from 'zod';
import { OptionError } from '../../util/option-error.ts';
import { ScenarioError } from '../errors.ts';
import { type Cursor, readState, type Stage } from './stage.ts';

const stateSchema = z.object({ epoch: z.int().nonnegative(), of: z.unknown() });

/**
 * Repeats a stage; each pass is its next epoch. `epochs` may be Infinity; `size` then counts one epoch.
 * @throws OptionError for a stage that learns.
 */
export function repeatStage<Scenario>(source: Stage<Scenario>, epochs: number): Stage<Scenario> {
  if (source.learns)
    throw new OptionError(
      'invalid_scenario_set',
      '`.repeat()` restarts its set in each epoch, which would lose what `.byDifficulty()` has learned. Put ' +
        '`.byDifficulty()` after `.repeat()`.',
      { option: 'epochs', value: epochs },
    );
  const isEndless = epochs === Number.POSITIVE_INFINITY;
  const open = (outer: number): Cursor<Scenario> => {
    const first = isEndless ? 0 : outer * epochs;
    let epoch = 0;
    let pass = source.open(first);
    let isEmpty = true;
    return {
      next: async () => {
        for (;;) {
          const drawn = await pass.next();
          if (drawn) {
            isEmpty = false;
            return drawn;
          }
          if (epoch + 1 >= epochs) return null;
          if (isEmpty && isEndless)
            throw new ScenarioError(
              'invalid_scenario_set',
              `Epoch ${epoch} of a set that repeats forever is empty. Check its source and its filters.`,
            );
          await pass.close?.();
          epoch++;
          isEmpty = true;
          pass = source.open(first + epoch);
        }
      },
      state: () => ({ epoch, of: pass.state() }),
      restore: async (state) => {
        const saved = readState('repeat', stateSchema, state);
        await pass.close?.();
        epoch = saved.epoch;
        pass = source.open(first + epoch);
        await pass.restore(saved.of);
        // The state does not say whether the saved pass was empty; the next epoch finds out.
        isEmpty = false;
      },
      close: async () => pass.close?.(),
    };
  };
  return {
    extent: isEndless ? 'infinite' : source.extent,
    size: source.size !== null && !isEndless ? source.size * epochs : source.size,
    learns: false,
    describe: () => ({ kind: 'repeat', epochs: isEndless ? null : epochs, of: source.describe() }),
    open,
  };
}
