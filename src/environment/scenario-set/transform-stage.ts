import { invalidOption } from '../../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { ScenarioError } from '../errors.ts';
import { hashToUnit, type KeyFunction } from './scenario-key.ts';
import type { DrawnScenario, Stage, StageDescription } from './stage.ts';

/** After this many scenarios in a row that do not pass, an endless set is refused. */
const maxSkipped = 1_000_000;

interface TransformOptions<From, To> {
  /** Number of draws of a pass; null if the transformation leaves scenarios out. */
  size: number | null;
  description: StageDescription;
  /** Null leaves the scenario out. */
  apply: (drawn: DrawnScenario<From>) => Promise<DrawnScenario<To> | null>;
}

/** Changes or leaves out scenarios one by one, without a state. */
export function transformStage<From, To>(
  source: Stage<From>,
  { size, description, apply }: TransformOptions<From, To>,
): Stage<To> {
  return {
    extent: source.extent,
    size,
    learns: source.learns,
    describe: () => ({ ...description, of: source.describe() }),
    open: (epoch) => {
      const upstream = source.open(epoch);
      const next = async () => {
        const slices = new TimeSlices();
        for (let skipped = 1; ; skipped++) {
          const drawn = await upstream.next();
          if (!drawn) return null;
          const changed = await apply(drawn);
          if (changed) return changed;
          if (skipped === maxSkipped)
            throw new ScenarioError(
              'invalid_scenario_set',
              `\`${description.kind}\` removed ${maxSkipped} scenarios in a row; perhaps none passes. Check the filter ` +
                'or the split.',
            );
          if (slices.over) await slices.pause();
        }
      };
      return { ...upstream, next };
    },
  };
}

export interface SplitOptions<Scenario> {
  /** Scenarios with the same value stay in the same split. Default: the scenario's key. */
  by?: KeyFunction<Scenario>;
  /** Seed of the split. Default 0. */
  seed?: number;
}

const splitNames = { by: 'function', seed: 'whole' } satisfies OptionNames<SplitOptions<unknown>>;

/**
 * A stage for each share. A hash of its key decides which split a scenario is in: neither the order nor other scenarios
 * change it.
 * @throws OptionError for shares that are not above 0 or do not add up to 1.
 */
export function splitStages<Scenario>(
  source: Stage<Scenario>,
  shares: Readonly<Record<string, number>>,
  options: SplitOptions<Scenario>,
): [name: string, stage: Stage<Scenario>][] {
  checkOptionNames('split()', options, splitNames);
  const { by, seed = 0 } = options;
  // Sorted, so that the order of the shares does not change the splits.
  const ends: [name: string, end: number][] = [];
  let sum = 0;
  for (const name of Object.keys(shares).sort()) {
    const share = shares[name] ?? 0;
    if (!(share > 0 && share <= 1))
      throw invalidOption(
        'invalid_scenario_set',
        `shares.${name}`,
        share,
        'Pass a share above 0 and up to 1.',
      );
    sum += share;
    ends.push([name, sum]);
  }
  if (Math.abs(sum - 1) > 1e-9)
    throw invalidOption('invalid_scenario_set', 'shares', shares, `The shares add up to ${sum}, not to 1.`);
  const splitOf = ({ scenario, key }: DrawnScenario<Scenario>) => {
    const position = hashToUnit(`${seed}/${by ? by(scenario) : key}`);
    return (ends.find(([, end]) => position < end) ?? ends.at(-1))?.[0];
  };
  return ends.map(([name]) => {
    const test = (drawn: DrawnScenario<Scenario>) => splitOf(drawn) === name;
    const description = { kind: 'split', name, shares, seed };
    const apply = async (drawn: DrawnScenario<Scenario>) => (test(drawn) ? drawn : null);
    return [name, source.where?.(test) ?? transformStage(source, { size: null, description, apply })];
  });
}
