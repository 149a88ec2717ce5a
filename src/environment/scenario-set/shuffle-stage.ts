import { z } from 'zod';
import { deriveSeed, randomSource } from '../../trajectory/index.ts';
import { OptionError } from '../../util/option-error.ts';
import { positionError } from '../errors.ts';
import type { DrawnScenario, JsonValue } from './scenario-source.ts';
import {
  breathe,
  type Cursor,
  drawsPerBreath,
  type Extent,
  readState,
  type Stage,
  type StageDescription,
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
 * Reads blocks of `buffer` scenarios (Infinity: a whole pass) and shuffles each by the seed, the epoch and the number of
 * the block. Seeking a position reads only its block again.
 */
export class ShuffleStage<Scenario> implements Stage<Scenario> {
  readonly #of: Stage<Scenario>;
  readonly #seed: number;
  readonly #buffer: number;

  /** @throws OptionError */
  constructor(of: Stage<Scenario>, { seed, buffer }: { seed: number; buffer: number | undefined }) {
    this.#of = of;
    this.#seed = seed;
    this.#buffer = bufferFor(of.extent, buffer);
  }

  get extent(): Extent {
    return this.#of.extent;
  }

  get size(): number | null {
    return this.#of.size;
  }

  get learns(): boolean {
    return this.#of.learns;
  }

  describe(): StageDescription {
    const buffer = Number.isFinite(this.#buffer) ? this.#buffer : null;
    return { kind: 'shuffle', seed: this.#seed, buffer, of: this.#of.describe() };
  }

  open(epoch: number): Cursor<Scenario> {
    const upstream = this.#of.open(epoch);
    let block = -1;
    let drawn = 0;
    let before: JsonValue = null;
    let order: DrawnScenario<Scenario>[] = [];
    const readBlock = async () => {
      const start = upstream.state();
      const items: DrawnScenario<Scenario>[] = [];
      while (items.length < this.#buffer) {
        const item = await upstream.next();
        if (!item) break;
        items.push(item);
        if (items.length % drawsPerBreath === 0) await breathe();
      }
      if (items.length === 0) return;
      block++;
      before = start;
      drawn = 0;
      order = shuffle(
        items,
        block === 0 ? deriveSeed(this.#seed, epoch) : deriveSeed(this.#seed, epoch, block),
      );
    };
    return {
      next: async () => {
        if (drawn >= order.length) await readBlock();
        return drawn < order.length ? (order[drawn++] ?? null) : null;
      },
      state: (): JsonValue => {
        const now = upstream.state();
        if (block < 0) return { now };
        return { block, drawn, before, now };
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
        if (block !== saved.block || order.length < saved.drawn) {
          throw positionError(
            `Block ${saved.block} of the shuffle had at least ${saved.drawn} scenarios and now has ${order.length}: ` +
              'what the set is made from has changed.',
          );
        }
        drawn = saved.drawn;
        // After reading the block: what the stage below has learned since must not change the block.
        await upstream.restore(saved.now);
      },
      observe: (results) => upstream.observe(results),
      reports: () => upstream.reports(),
      close: () => upstream.close(),
    };
  }
}

function bufferFor(extent: Extent, buffer: number | undefined): number {
  const size = buffer ?? (extent === 'finite' ? Number.POSITIVE_INFINITY : Number.NaN);
  if (Number.isInteger(size) && size >= 1) return size;
  if (size === Number.POSITIVE_INFINITY && extent !== 'infinite') return size;
  throw new OptionError(
    'invalid_scenario_set',
    `\`buffer\` is ${buffer} for a set whose end is ${extent === 'finite' ? '' : 'not '}known; give a whole number of ` +
      'scenarios to shuffle among themselves, such as 1000, or put `.shuffle()` before `.repeat()`.',
    { option: 'buffer', value: buffer },
  );
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
