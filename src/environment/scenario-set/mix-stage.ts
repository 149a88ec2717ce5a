import { z } from 'zod';
import { deriveSeed, randomSource } from '../../trajectory/index.ts';
import { invalidOption } from '../../util/option-error.ts';
import { sumOf } from '../../util/sums.ts';
import { positionError } from '../errors.ts';
import { type Cursor, readState, type Stage } from './stage.ts';

interface MixPart<Scenario> {
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

/**
 * Draws each scenario from a part chosen at random by weight, from the seed, the epoch and the number of the draw.
 * @throws OptionError
 */
export function mixStage<Scenario>(mixed: readonly MixPart<Scenario>[], seed: number): Stage<Scenario> {
  const refusal = (option: string, value: unknown, remedy: string) =>
    invalidOption('invalid_scenario_set', option, value, remedy);
  if (mixed.length === 0) throw refusal('sets', mixed, 'Pass at least one set.');
  for (const [index, { name, weight }] of mixed.entries()) {
    if (!(weight > 0 && Number.isFinite(weight)))
      throw refusal(`sets[${index}].weight`, weight, 'Pass a finite number above 0.');
    if (name.includes('/') || mixed.filter((part) => part.name === name).length > 1)
      throw refusal(`sets[${index}].name`, name, 'Give each set a unique name without "/".');
  }
  const extents = mixed.map(({ stage }) => stage.extent);
  const sizes = mixed.map(({ stage }) => stage.size);
  const extent =
    extents.find((one) => one === 'infinite') ?? extents.find((one) => one === 'unknown') ?? 'finite';
  const open = (epoch: number): Cursor<Scenario> => {
    const parts = mixed.map(({ stage, weight, name }) => ({
      cursor: stage.open(epoch),
      weight,
      prefix: `${name}/`,
      ended: false,
    }));
    let draws = 0;
    return {
      next: async () => {
        const random = randomSource(deriveSeed(seed, epoch, draws))();
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
            `The position belongs to a mix of ${saved.parts.length} sets, not of ${parts.length}.`,
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
          cursor.observe?.(own.map(({ key, rewards }) => ({ key: key.slice(prefix.length), rewards })));
        }
      },
      reports: () =>
        parts.flatMap(({ cursor, prefix }) =>
          (cursor.reports?.() ?? []).map((report) => ({ ...report, name: prefix + report.name })),
        ),
      close: async () => {
        await Promise.all(parts.map(({ cursor }) => cursor.close?.()));
      },
    };
  };
  return {
    extent,
    size:
      extent === 'finite' && !sizes.includes(null)
        ? sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0)
        : null,
    learns: mixed.some(({ stage }) => stage.learns),
    describe: () => ({
      kind: 'mix',
      seed,
      parts: mixed.map(({ stage, weight, name }) => ({ name, weight, of: stage.describe() })),
    }),
    open,
  };
}

/** The part at the share `random` of the cumulated weights. */
function choose<Part extends { weight: number }>(parts: readonly Part[], random: number): Part | undefined {
  let left = random * sumOf(parts, ({ weight }) => weight);
  for (const part of parts) {
    left -= part.weight;
    if (left < 0) return part;
  }
  return parts.at(-1);
}
