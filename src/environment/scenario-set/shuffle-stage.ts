import { z } from 'zod';
import { deriveSeed, randomSource } from '../../trajectory/index.ts';
import { invalidOption } from '../../util/option-error.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { positionError } from '../errors.ts';
import {
  type Cursor,
  type DrawnScenario,
  type Extent,
  type JsonValue,
  readState,
  type Stage,
} from './stage.ts';

const stateSchema = z.object({
  block: z.int().nonnegative(),
  drawn: z.int().nonnegative(),
  /** State of the stage below: before the block was read, and now. */
  before: z.unknown(),
  now: z.unknown(),
});

/** The state before the first block. */
const unreadSchema = z.strictObject({ now: z.unknown() });

/**
 * Reads blocks of `buffer` scenarios (default: a whole pass) and shuffles each by the seed, the epoch and the number of
 * the block. Seeking a position reads only its block again.
 * @throws OptionError
 */
export function shuffleStage<Scenario>(
  source: Stage<Scenario>,
  { seed = 0, buffer }: { seed?: number; buffer?: number },
): Stage<Scenario> {
  const blockSize = blockSizeFor(source.extent, buffer);
  const open = (epoch: number): Cursor<Scenario> => {
    const upstream = source.open(epoch);
    let block = -1;
    let drawn = 0;
    let before: JsonValue = null;
    let order: DrawnScenario<Scenario>[] = [];
    const readBlock = async () => {
      const start = upstream.state();
      const items: DrawnScenario<Scenario>[] = [];
      const slices = new TimeSlices();
      while (items.length < blockSize) {
        const item = await upstream.next();
        if (!item) break;
        items.push(item);
        if (slices.over) await slices.pause();
      }
      if (items.length === 0) return;
      block++;
      before = start;
      drawn = 0;
      order = shuffle(items, block === 0 ? deriveSeed(seed, epoch) : deriveSeed(seed, epoch, block));
    };
    return {
      ...upstream,
      next: async () => {
        if (drawn >= order.length) await readBlock();
        return drawn < order.length ? (order[drawn++] ?? null) : null;
      },
      state: (): JsonValue => {
        const now = upstream.state();
        return block < 0 ? { now } : { block, drawn, before, now };
      },
      restore: async (state) => {
        const unread = unreadSchema.safeParse(state);
        if (unread.success) {
          block = -1;
          drawn = 0;
          order = [];
          return upstream.restore(unread.data.now);
        }
        const saved = readState('shuffle', stateSchema, state);
        await upstream.restore(saved.before);
        block = saved.block - 1;
        order = [];
        await readBlock();
        if (block !== saved.block || order.length < saved.drawn)
          throw positionError(
            `Block ${saved.block} of the shuffle had at least ${saved.drawn} scenarios and now has ${order.length}: ` +
              'the source of the set has changed.',
          );
        drawn = saved.drawn;
        // After reading the block: what the stage below has learned since must not change the block.
        await upstream.restore(saved.now);
      },
    };
  };
  return {
    extent: source.extent,
    size: source.size,
    learns: source.learns,
    describe: () => ({
      kind: 'shuffle',
      seed,
      buffer: Number.isFinite(blockSize) ? blockSize : null,
      of: source.describe(),
    }),
    open,
  };
}

function blockSizeFor(extent: Extent, buffer: number | undefined): number {
  const size = buffer ?? (extent === 'finite' ? Number.POSITIVE_INFINITY : Number.NaN);
  if (Number.isInteger(size) && size >= 1) return size;
  if (size === Number.POSITIVE_INFINITY && extent !== 'infinite') return size;
  const remedy =
    'Pass a whole number of scenarios to shuffle at a time, such as 1000, or put `.shuffle()` before `.repeat()`.';
  throw invalidOption('invalid_scenario_set', 'buffer', buffer, remedy);
}

/** Fisher-Yates shuffle. */
function shuffle<Item>(items: Item[], seed: number): Item[] {
  const random = randomSource(seed);
  for (let last = items.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    items.splice(last, 1, ...items.splice(other, 1, ...items.slice(last, last + 1)));
  }
  return items;
}
