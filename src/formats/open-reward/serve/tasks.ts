import { ScenarioSet } from '../../../environment/index.ts';
import { problemsOf } from '../../../util/show-value.ts';
import { OpenRewardError } from '../server.ts';
import type { ServedEnvironment } from './servable.ts';

/** Most scenarios of a split: they are all in memory. */
const mostTasks = 1_000_000;

const splitTypes = ['train', 'validation', 'test'];

/** Scenarios as the schema takes them, by split. */
export type Splits = ReadonlyMap<string, readonly unknown[]>;

/** Reads the scenarios of each split and checks them. @throws OpenRewardError (`bad_option`) */
export async function readSplits(
  environment: ServedEnvironment,
  scenarios: Readonly<Record<string, readonly unknown[] | ScenarioSet<unknown>>>,
  signal?: AbortSignal,
): Promise<Splits> {
  const splits = new Map<string, readonly unknown[]>();
  for (const [name, given] of Object.entries(scenarios)) {
    const option = `scenarios.${name}`;
    const found = given instanceof ScenarioSet ? await takeAll(given, { option, signal }) : given;
    if (!Array.isArray(found) || found.length === 0)
      throw new OpenRewardError('bad_option', `${option}: give an array or a ScenarioSet with scenarios`);
    for (const [index, scenario] of found.entries()) {
      const parsed = await environment.scenario.safeParseAsync(scenario);
      if (parsed.success) continue;
      const what = `${option}[${index}] does not fit the schema of environment "${environment.name}"`;
      throw new OpenRewardError(
        'bad_option',
        `${what}: ${problemsOf(`${option}[${index}]`, scenario, parsed.error)}`,
        { cause: parsed.error },
      );
    }
    splits.set(name, found);
  }
  if (splits.size > 0) return splits;
  throw new OpenRewardError('bad_option', 'scenarios: give at least one split, such as { train: [...] }');
}

async function takeAll(
  set: ScenarioSet<unknown>,
  { option, signal }: { option: string; signal: AbortSignal | undefined },
): Promise<unknown[]> {
  const drawn = await set.take(mostTasks + 1, { ...(signal ? { signal } : {}) });
  if (drawn.length <= mostTasks) return drawn.map(({ scenario }) => scenario);
  throw new OpenRewardError(
    'bad_option',
    `${option} has more than ${mostTasks} scenarios, or no end: serve some of it, as with .take(1000)`,
  );
}

/** A split as the standard lists it. Splits with other names are for validation there. */
export const splitOf = (name: string) => ({ name, type: splitTypes.includes(name) ? name : 'validation' });

/** The part of a list that Python's `list[start:stop]` is. */
export const rangeOf = (
  tasks: readonly unknown[],
  { start, stop }: { start?: number | null | undefined; stop?: number | null | undefined },
): unknown[] => tasks.slice(start ?? 0, stop ?? tasks.length);
