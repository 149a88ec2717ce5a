import { z } from 'zod';
import { groupStandardDeviation } from '../../learning/index.ts';
import { invalidOption, OptionError, wholeNumberOption } from '../../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../../util/option-names.ts';
import {
  breathe,
  type Cursor,
  type DifficultyOptions,
  type DifficultyReport,
  drawsPerBreath,
  type Extent,
  readState,
  type Stage,
  type StageDescription,
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
export type GroupVerdict = 's' | 'u' | 'e' | 'm';

/** Null for fewer than two rewards, which show no difference. */
export function judgeGroup(
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
export function resolveDifficulty(options: DifficultyOptions): Required<DifficultyOptions> {
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
  for (const [name, value, least] of [
    ['groups', bounds.groups, 1],
    ['retryEvery', bounds.retryEvery, 1],
    ['floor', bounds.floor, 0],
    ['remember', bounds.remember, 1],
  ] as const) {
    wholeNumberOption('invalid_scenario_set', name, value, least);
  }
  if (!(bounds.maxSkippedShare >= 0 && bounds.maxSkippedShare < 1)) {
    throw invalidOption(
      'invalid_scenario_set',
      'maxSkippedShare',
      bounds.maxSkippedShare,
      'Give a share from 0 to below 1.',
    );
  }
  if (!(bounds.unsolvedAt < bounds.solvedAt)) {
    throw new OptionError(
      'invalid_scenario_set',
      `\`unsolvedAt\` is ${bounds.unsolvedAt} and \`solvedAt\` ${bounds.solvedAt}; the first must be the lower one.`,
      { option: 'unsolvedAt', value: bounds.unsolvedAt },
    );
  }
  return bounds;
}

/** Key, verdicts of the last groups (oldest first), and number of skips since the scenario was last given. */
type Entry = readonly [key: string, verdicts: string, skips: number];

const stateSchema = z.object({
  draws: z.int().nonnegative(),
  skipped: z.int().nonnegative(),
  scenarios: z.array(z.tuple([z.string(), z.string(), z.int().nonnegative()])),
  of: z.unknown(),
});

/** Skips scenarios whose last groups all had the same verdict without a signal, within its bounds. */
export class DifficultyStage<Scenario> implements Stage<Scenario> {
  readonly learns = true;
  readonly #of: Stage<Scenario>;
  readonly #bounds: Required<DifficultyOptions>;

  constructor(of: Stage<Scenario>, bounds: Required<DifficultyOptions>) {
    this.#of = of;
    this.#bounds = bounds;
  }

  get extent(): Extent {
    return this.#of.extent;
  }

  get size(): number | null {
    return this.#of.size;
  }

  describe(): StageDescription {
    return { kind: 'difficulty', ...this.#bounds, of: this.#of.describe() };
  }

  open(epoch: number): Cursor<Scenario> {
    const { groups, maxSkippedShare, retryEvery, floor } = this.#bounds;
    const upstream = this.#of.open(epoch);
    const known = new Entries(this.#bounds);
    let draws = 0;
    let skipped = 0;

    const isSkipped = (entry: Entry) =>
      known.isSettled(entry) &&
      entry[2] + 1 < retryEvery &&
      known.inPlay >= floor &&
      skipped + 1 <= maxSkippedShare * (draws + 1);
    return {
      next: async () => {
        for (let unseen = 1; ; unseen++) {
          const drawn = await upstream.next();
          if (!drawn) return null;
          const entry = known.get(drawn.key);
          const skips = isSkipped(entry);
          draws++;
          known.set([entry[0], entry[1], skips ? entry[2] + 1 : 0]);
          if (!skips) return drawn;
          skipped++;
          if (unseen % drawsPerBreath === 0) await breathe();
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
          const verdict = judgeGroup(rewards, this.#bounds);
          if (verdict === null || !known.has(key)) continue;
          const [, verdicts, skips] = known.get(key);
          known.set([key, (verdicts + verdict).slice(-groups), skips]);
        }
        upstream.observe(results);
      },
      reports: () => [this.#report(known, { draws, skipped }), ...upstream.reports()],
      close: () => upstream.close(),
    };
  }

  #report(known: Entries, counts: { draws: number; skipped: number }): DifficultyReport {
    const settled = known.list().filter((entry) => known.isSettled(entry));
    const count = (verdict: string) => settled.filter(([, verdicts]) => verdicts[0] === verdict).length;
    return {
      name: '',
      alwaysSolved: count('s'),
      neverSolved: count('u'),
      alwaysEqual: count('e'),
      inPlay: known.inPlay,
      ...counts,
      bounds: this.#bounds,
    };
  }
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
