import { costOf, type TokenPrices, type TokenUsage } from '../evaluation/index.ts';
import { type RolloutGroup, trajectoriesOf } from '../rollout/index.ts';
import { reachedLimit, sumUsage, usageOf } from '../training/index.ts';
import type { OptimizationSpent } from './log.ts';
import type { OptimizationBudget } from './options.ts';

interface SpendingOptions {
  budget?: OptimizationBudget | undefined;
  prices?: TokenPrices | undefined;
  reflectPrices?: TokenPrices | undefined;
}

const nothing: TokenUsage = { promptTokens: 0, sampledTokens: 0 };

/** What a run has used, over all its calls, and whether that reaches its budget. */
export class Spending {
  readonly #options: SpendingOptions;
  readonly #startedMs = performance.now();
  readonly #secondsBefore: number;
  #rollouts: number;
  #model: TokenUsage;
  #reflect: TokenUsage;

  /** @param before Used by earlier calls, up to their last finished iteration. */
  constructor(before: OptimizationSpent | undefined, options: SpendingOptions) {
    this.#options = options;
    this.#secondsBefore = before?.seconds ?? 0;
    this.#rollouts = before?.rollouts ?? 0;
    this.#model = before?.model ?? nothing;
    this.#reflect = before?.reflect ?? nothing;
  }

  addGroup(group: RolloutGroup): void {
    // A rollout that was cancelled before its first call has cost nothing.
    this.#rollouts += group.rollouts.filter(
      (rollout) =>
        rollout.status !== 'cancelled' || trajectoriesOf(rollout).some(({ calls }) => calls.length > 0),
    ).length;
    this.#model = sumUsage([this.#model, usageOf([group])]);
  }

  addReflection(usage: TokenUsage): void {
    this.#reflect = sumUsage([this.#reflect, usage]);
  }

  get spent(): OptimizationSpent {
    const { prices, reflectPrices } = this.#options;
    const reflectCost = sumTokens(this.#reflect) === 0 ? 0 : costOf(this.#reflect, reflectPrices);
    const modelCost = costOf(this.#model, prices);
    return {
      rollouts: this.#rollouts,
      model: this.#model,
      reflect: this.#reflect,
      cost: modelCost === null || reflectCost === null ? null : modelCost + reflectCost,
      seconds: this.#secondsBefore + (performance.now() - this.#startedMs) / 1000,
    };
  }

  /** Which limit is reached, or would be exceeded by `more` rollouts, as text; null if none is. */
  limit(more = 0): string | null {
    const { budget = {} } = this.#options;
    const { rollouts, model, reflect, cost, seconds } = this.spent;
    if (budget.rollouts !== undefined && rollouts + more > budget.rollouts)
      return `${rollouts} of ${budget.rollouts} rollouts are used, and ${more} more are needed`;
    return reachedLimit(budget, { usage: sumUsage([model, reflect]), cost, seconds });
  }
}

const sumTokens = ({ promptTokens, sampledTokens }: TokenUsage): number => promptTokens + sampledTokens;
