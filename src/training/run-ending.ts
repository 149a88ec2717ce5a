import type { ModelHandle } from '../model/index.ts';
import type { RunEndReason, RunValidation, StepReport } from '../progress/index.ts';
import type { RolloutCounts } from '../rollout/index.ts';
import { costOf, sumUsage, type TokenPrices } from './budget.ts';
import { rankCheckpoints } from './checkpoints.ts';
import type { RunState } from './run-state.ts';
import type { TrainResult, TrainSettings } from './train-options.ts';

/** Why a run ends, and what is to be said of it. */
export interface RunEnd {
  reason: RunEndReason;
  because: string | null;
}

/** Of all steps that are finished. */
export function countsOf(reports: readonly StepReport[]): RolloutCounts {
  const counts: RolloutCounts = { dispatched: 0, completed: 0, failed: 0, cancelled: 0 };
  for (const report of reports) addCounts(counts, report);
  return counts;
}

export function addCounts(
  total: RolloutCounts,
  { dispatched, completed, failed, cancelled }: RolloutCounts,
): void {
  total.dispatched += dispatched;
  total.completed += completed;
  total.failed += failed;
  total.cancelled += cancelled;
}

/** Tokens of all finished steps and validations, and their price. */
export function usageOfRun(
  { reports, evaluations }: { reports: readonly StepReport[]; evaluations: readonly RunValidation[] },
  prices: TokenPrices | undefined,
): TrainResult['usage'] {
  const usage = sumUsage([...reports, ...evaluations].map((part) => part.usage));
  return { ...usage, cost: costOf(usage, prices) };
}

/** The model that a run ends with, the best that it has made, and its validations. */
export function resultOf(
  { model, state }: { model: ModelHandle; state: RunState },
  keep: TrainSettings<never, unknown>['keepCheckpoints'],
): Pick<TrainResult, 'model' | 'finalStep' | 'best' | 'evaluations'> {
  const { checkpoints, policySteps, evaluations } = state;
  const isThere = (step: number) => step === policySteps[0] || checkpoints.includes(step);
  const metric = typeof keep === 'object' ? keep.metric : undefined;
  const best = rankCheckpoints(evaluations, metric).find(({ step }) => isThere(step));
  return {
    model,
    finalStep: model.step ?? 0,
    best: best ? { model: model.at(best.step), ...best } : null,
    evaluations,
  };
}
