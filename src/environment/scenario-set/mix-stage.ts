import { z } from 'zod';
import { deriveSeed, randomSource } from '../../trajectory/index.ts';
import { OptionError } from '../../util/option-error.ts';
import { positionError } from '../errors.ts';
import { type Cursor, type Extent, readState, type Stage, type StageDescription } from './stage.ts';

export interface MixPart<Scenario> {
  stage: Stage<Scenario>;
  weight: number;
  /** Prefix of the part's keys, so that two parts may use the same ids. */
  name: string;
}

const stateSchema = z.object({
  draws: z.int().nonnegative(),
  ended: z.array(z.boolean()),
  parts: z.array(z.unknown()),
});

/** Draws each scenario from a part chosen at random by weight, from the seed, the epoch and the number of the draw. */
export class MixStage<Scenario> implements Stage<Scenario> {
  readonly #parts: readonly MixPart<Scenario>[];
  readonly #seed: number;

  /** @throws OptionError */
  constructor(parts: readonly MixPart<Scenario>[], seed: number) {
    if (parts.length === 0)
      throw new OptionError('invalid_scenario_set', 'A mix needs at least one set.', {
        option: 'sets',
        value: parts,
      });
    for (const { name, weight } of parts) {
      if (!(weight > 0 && Number.isFinite(weight)))
        throw new OptionError(
          'invalid_scenario_set',
          `The weight of "${name}" is ${weight}; give a finite number above 0.`,
          { option: 'weight', value: weight },
        );
      if (name.includes('/') || parts.filter((part) => part.name === name).length > 1)
        throw new OptionError(
          'invalid_scenario_set',
          `"${name}" begins keys: give each set a name of its own, without "/".`,
          { option: 'name', value: name },
        );
    }
    this.#parts = parts;
    this.#seed = seed;
  }

  get extent(): Extent {
    const extents = this.#parts.map(({ stage }) => stage.extent);
    if (extents.includes('infinite')) return 'infinite';
    return extents.includes('unknown') ? 'unknown' : 'finite';
  }

  get size(): number | null {
    if (this.extent !== 'finite') return null;
    return this.#parts.reduce<number | null>(
      (sum, { stage: { size } }) => (sum === null || size === null ? null : sum + size),
      0,
    );
  }

  get learns(): boolean {
    return this.#parts.some(({ stage }) => stage.learns);
  }

  describe(): StageDescription {
    const parts = this.#parts.map(({ stage, weight, name }) => ({ name, weight, of: stage.describe() }));
    return { kind: 'mix', seed: this.#seed, parts };
  }

  open(epoch: number): Cursor<Scenario> {
    const parts = this.#parts.map(({ stage, weight, name }) => ({
      cursor: stage.open(epoch),
      weight,
      prefix: `${name}/`,
      ended: false,
    }));
    let draws = 0;
    return {
      next: async () => {
        const random = randomSource(deriveSeed(this.#seed, epoch, draws))();
        for (;;) {
          const part = choose(
            parts.filter(({ ended }) => !ended),
            random,
          );
          if (!part) return null;
          const drawn = await part.cursor.next();
          if (drawn) {
            draws++;
            return { scenario: drawn.scenario, key: part.prefix + drawn.key };
          }
          part.ended = true;
        }
      },
      state: () => ({
        draws,
        ended: parts.map(({ ended }) => ended),
        parts: parts.map(({ cursor }) => cursor.state()),
      }),
      restore: async (state) => {
        const saved = readState('mix', stateSchema, state);
        if (saved.parts.length !== parts.length || saved.ended.length !== parts.length)
          throw positionError(
            `The position is of a mix of ${saved.parts.length} sets, not of ${parts.length}.`,
          );
        draws = saved.draws;
        for (const [index, part] of parts.entries()) {
          part.ended = saved.ended[index] ?? false;
          await part.cursor.restore(saved.parts[index]);
        }
      },
      observe: (results) => {
        for (const { cursor, prefix } of parts) {
          const own = results.filter(({ key }) => key.startsWith(prefix));
          cursor.observe(own.map(({ key, rewards }) => ({ key: key.slice(prefix.length), rewards })));
        }
      },
      reports: () =>
        parts.flatMap(({ cursor, prefix }) =>
          cursor.reports().map((report) => ({ ...report, name: prefix + report.name })),
        ),
      close: async () => {
        await Promise.all(parts.map(({ cursor }) => cursor.close()));
      },
    };
  }
}

/** The part at the share `random` of the cumulated weights. */
function choose<Part extends { weight: number }>(parts: readonly Part[], random: number): Part | undefined {
  let left = random * parts.reduce((sum, { weight }) => sum + weight, 0);
  for (const part of parts) {
    left -= part.weight;
    if (left < 0) return part;
  }
  return parts.at(-1);
}
