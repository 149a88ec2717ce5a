import { z } from 'zod';
import { groupStandardDeviation } from '../../learning/index.ts';
import { invalidOption, wholeNumberOption } from '../../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import {
  type Cursor,
  type DifficultyOptions,
  type DifficultyReport,
  readState,
  type Stage,
} from './stage.ts';

const difficultyNames = {
  groups: true,
  solvedAt: true,
  unsolvedAt: true,
  maxSkippedShare: true,
  retryEvery: true,
  floor: true,
  remember: true,
} satisfies OptionNames<DifficultyOptions>;

/** Result of a group: solved, unsolved, equal in between, or mixed. Only a mixed group has a signal. */
type GroupVerdict = 's' | 'u' | 'e' | 'm';

/** Null for fewer than two rewards, which show no difference. */
function judgeGroup(
  rewards: readonly number[],
  { solvedAt, unsolvedAt }: Pick<Required<DifficultyOptions>, 'solvedAt' | 'unsolvedAt'>,
): GroupVerdict | null {
  const [first] = rewards;
  if (first === undefined || rewards.length < 2) return null;
  if (groupStandardDeviation(rewards) > 0) return 'm';
  if (first >= solvedAt) return 's';
  return first <= unsolvedAt ? 'u' : 'e';
}

/** @throws OptionError for the first option that is unknown or invalid. */
function resolveBounds(options: DifficultyOptions): Required<DifficultyOptions> {
  checkOptionNames('byDifficulty()', options, difficultyNames);
  const bounds = {
    groups: 2,
    solvedAt: 1,
    unsolvedAt: 0,
    maxSkippedShare: 0.5,
    retryEvery: 4,
    floor: 1,
    remember: 100_000,
    ...options,
  };
  const { maxSkippedShare, solvedAt, unsolvedAt } = bounds;
  for (const [name, min] of [
    ['groups', 1],
    ['retryEvery', 1],
    ['floor', 0],
    ['remember', 1],
  ] as const)
    wholeNumberOption('invalid_scenario_set', name, bounds[name], min);
  if (!(maxSkippedShare >= 0 && maxSkippedShare < 1)) {
    const remedy = 'Pass a share from 0 to below 1.';
    throw invalidOption('invalid_scenario_set', 'maxSkippedShare', maxSkippedShare, remedy);
  }
  if (!(unsolvedAt < solvedAt)) {
    const remedy = `Pass a number below \`solvedAt\`, which is ${solvedAt}.`;
    throw invalidOption('invalid_scenario_set', 'unsolvedAt', unsolvedAt, remedy);
  }
  return bounds;
}

/** Key, verdicts of the last groups (oldest first), and number of skips since the scenario was last drawn. */
type Entry = readonly [key: string, verdicts: string, skips: number];

const stateSchema = z.object({
  draws: z.int().nonnegative(),
  skipped: z.int().nonnegative(),
  scenarios: z.array(z.tuple([z.string(), z.string(), z.int().nonnegative()])),
  of: z.unknown(),
});

/**
 * Skips scenarios whose last groups all had the same verdict without a signal, within its bounds.
 * @throws OptionError
 */
export function difficultyStage<Scenario>(
  source: Stage<Scenario>,
  options: DifficultyOptions,
): Stage<Scenario> {
  const bounds = resolveBounds(options);
  const { groups, maxSkippedShare, retryEvery, floor } = bounds;
  const open = (epoch: number): Cursor<Scenario> => {
    const upstream = source.open(epoch);
    const known = new Entries(bounds);
    let draws = 0;
    let skipped = 0;

    const isSkipped = (entry: Entry) =>
      known.isSettled(entry) &&
      entry[2] + 1 < retryEvery &&
      known.inPlay >= floor &&
      skipped + 1 <= maxSkippedShare * (draws + 1);
    const report = (): DifficultyReport => {
      const settled = known.list().filter((entry) => known.isSettled(entry));
      const count = (verdict: GroupVerdict) =>
        settled.filter(([, verdicts]) => verdicts[0] === verdict).length;
      return {
        name: '',
        alwaysSolved: count('s'),
        neverSolved: count('u'),
        alwaysEqual: count('e'),
        inPlay: known.inPlay,
        draws,
        skipped,
        bounds,
      };
    };
    return {
      next: async () => {
        const slices = new TimeSlices();
        for (;;) {
          const drawn = await upstream.next();
          if (!drawn) return null;
          const entry = known.get(drawn.key);
          const [key, verdicts, skips] = entry;
          const skip = isSkipped(entry);
          draws++;
          known.set([key, verdicts, skip ? skips + 1 : 0]);
          if (!skip) return drawn;
          skipped++;
          if (slices.over) await slices.pause();
        }
      },
      state: () => ({ draws, skipped, scenarios: known.list(), of: upstream.state() }),
      restore: async (state) => {
        const saved = readState('difficulty', stateSchema, state);
        ({ draws, skipped } = saved);
        known.reset(saved.scenarios);
        await upstream.restore(saved.of);
      },
      observe: (results) => {
        for (const { key, rewards } of results) {
          const verdict = judgeGroup(rewards, bounds);
          if (verdict === null || !known.has(key)) continue;
          const [, verdicts, skips] = known.get(key);
          known.set([key, (verdicts + verdict).slice(-groups), skips]);
        }
        upstream.observe?.(results);
      },
      reports: () => [report(), ...(upstream.reports?.() ?? [])],
      close: async () => upstream.close?.(),
    };
  };
  return {
    extent: source.extent,
    size: source.size,
    learns: true,
    describe: () => ({ kind: 'difficulty', ...bounds, of: source.describe() }),
    open,
  };
}

/** The drawn scenarios, least recently updated first. */
class Entries {
  readonly #bounds: Required<DifficultyOptions>;
  readonly #entries = new Map<string, Entry>();
  #settled = 0;

  constructor(bounds: Required<DifficultyOptions>) {
    this.#bounds = bounds;
  }

  get inPlay(): number {
    return this.#entries.size - this.#settled;
  }

  /** Whether enough groups are known and all have the same verdict, other than mixed. */
  isSettled([, verdicts]: Entry): boolean {
    const [first] = verdicts;
    return (
      verdicts.length === this.#bounds.groups && first !== 'm' && [...verdicts].every((v) => v === first)
    );
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  get(key: string): Entry {
    return this.#entries.get(key) ?? [key, '', 0];
  }

  set(entry: Entry): void {
    this.#delete(entry[0]);
    this.#entries.set(entry[0], entry);
    if (this.isSettled(entry)) this.#settled++;
    if (this.#entries.size <= this.#bounds.remember) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#delete(oldest);
  }

  list(): Entry[] {
    return [...this.#entries.values()];
  }

  reset(entries: readonly Entry[]): void {
    this.#entries.clear();
    this.#settled = 0;
    for (const entry of entries) this.set(entry);
  }

  #delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry && this.isSettled(entry)) this.#settled--;
    this.#entries.delete(key);
  }
}
