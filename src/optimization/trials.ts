import type { z } from 'zod';
import type { TextSet } from '../environment/index.ts';
import { type Evaluation, endsOf, evaluate } from '../evaluation/index.ts';
import { type RolloutGroup, type RolloutSettings, rolloutSettingNames } from '../rollout/index.ts';
import type { RunDirectory } from '../training/index.ts';
import type { OptimizeOptions } from './options.ts';
import type { Spending } from './spending.ts';
import { StoredGroups } from './stored-groups.ts';

/** Ends a search from within, without an error. */
export class Ended extends Error {
  readonly reason: 'budget' | 'stopped';
  readonly because: string | null;

  constructor(reason: 'budget' | 'stopped', because: string | null = null) {
    super(reason);
    this.reason = reason;
    this.because = because;
  }
}

interface Trial<Schema extends z.ZodType> {
  texts: TextSet;
  scenarios: readonly z.input<Schema>[];
  seed: number;
}

/** Runs texts on scenarios, within the budget. */
export class Trials<Schema extends z.ZodType, Outcome, Texts extends TextSet> {
  readonly #options: OptimizeOptions<Schema, Outcome, Texts>;
  readonly #directory: RunDirectory;
  readonly #spending: Spending;

  constructor(
    options: OptimizeOptions<Schema, Outcome, Texts>,
    { directory, spending }: { directory: RunDirectory; spending: Spending },
  ) {
    this.#options = options;
    this.#directory = directory;
    this.#spending = spending;
  }

  /**
   * Groups of earlier calls do not run again; others are on disk as soon as they have ended. `name`: of their file.
   * @throws Ended
   */
  async run(name: string, { texts, scenarios, seed }: Trial<Schema>): Promise<Evaluation<z.output<Schema>>> {
    const { environment, model, signal, rolloutsPerScenario = 1 } = this.#options;
    const stored = await StoredGroups.open(this.#directory.path, name);
    for (const group of stored.kept.values()) this.#spending.addGroup(group);
    const missing = scenarios.length - stored.kept.size;
    if (missing > 0) this.endIfDue(missing * rolloutsPerScenario);
    const budget = new AbortController();
    const ending = signal ? AbortSignal.any([signal, budget.signal]) : budget.signal;
    const onGroup = async (group: RolloutGroup) => {
      this.#spending.addGroup(group);
      const { rollouts } = group;
      const wasStopped = ending.aborted && rollouts.some(({ status }) => status !== 'completed');
      const limit = this.#spending.limit();
      if (limit !== null) budget.abort(new Ended('budget', limit));
      // A group without a score, which an outage may have caused, runs again when the run is resumed.
      if (!wasStopped && rollouts.some(({ status }) => status === 'completed')) await stored.add(group);
    };
    const evaluation = await evaluate({
      ...settingsOf(this.#options),
      environment: environment.withTexts({ ...environment.texts, ...texts }),
      scenarios,
      model,
      seed,
      kept: stored.kept,
      signal: ending,
      progress: false,
      onGroup,
    });
    if (ending.aborted && evaluation.counts.cancelled > 0) {
      this.endIfStopped();
      throw budget.signal.reason;
    }
    return evaluation;
  }

  /**
   * Runs texts on the validation scenarios. `rewards` is null if one of them has none.
   * @throws Ended
   */
  async validate(texts: TextSet, iteration: number) {
    const { scenarios, validation = scenarios, seed = 0 } = this.#options;
    const name = `validation-${iteration}`;
    const evaluation = await this.run(name, { scenarios: validation, seed, texts });
    const { perScenario, groups, counts, reward, success: share } = evaluation;
    const rewards = perScenario.flatMap((score) => score.reward ?? []);
    const isComplete = rewards.length === perScenario.length;
    if (reward && isComplete) {
      this.#directory.appendEvent({
        type: 'evaluated',
        name,
        policy: evaluation.policy,
        score: { reward: reward.mean, success: share?.mean ?? null },
        intervals: { reward: endsOf(reward), success: endsOf(share) },
        scenarios: perScenario.length,
        scored: reward.count,
        counts,
        examples: [],
      });
      await this.#directory.settle();
    }
    const success = perScenario.map((score) => score.success);
    return { rewards: isComplete ? rewards : null, success, groups, counts };
  }

  /** @throws Ended if the run was stopped, or so many more rollouts are beyond its budget. */
  endIfDue(rollouts = 0): void {
    this.endIfStopped();
    const limit = this.#spending.limit(rollouts);
    if (limit !== null) throw new Ended('budget', limit);
  }

  endIfStopped(): void {
    if (this.#options.signal?.aborted) throw new Ended('stopped');
  }
}

const evaluationNames: readonly string[] = [
  ...Object.keys(rolloutSettingNames),
  'rolloutsPerScenario',
  'temperature',
];

/** The options that `evaluate` has too, by the same names. */
const settingsOf = (
  options: object,
): RolloutSettings & { rolloutsPerScenario?: number; temperature?: number | 'agent' } =>
  Object.fromEntries(
    Object.entries(options).filter(([name, value]) => evaluationNames.includes(name) && value !== undefined),
  );
