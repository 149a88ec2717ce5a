import type { z } from 'zod';
import { type ModelHandle, requireModelId } from '../model/index.ts';
import type { RunValidation } from '../progress/index.ts';
import { wholeNumberOption } from '../util/option-error.ts';
import { type OptionNames, requireOptions } from '../util/option-names.ts';
import { warn } from '../util/warning.ts';
import { canRank } from './diagnosis/thresholds.ts';
import { stopGraceMs, withGrace } from './grace.ts';
import type { RunContext } from './run-context.ts';
import { checkpointsOfPools } from './seats.ts';
import { trainDefaults } from './train-options.ts';

export interface PruneCheckpointsOptions {
  model: ModelHandle;
  /** Steps of the checkpoints that the run created and has not deleted, oldest first. */
  steps: readonly number[];
  /** How many of the newest checkpoints to keep. */
  keep: number | 'all';
  /** Further steps to keep, for example those that rollouts still sample from. */
  alsoKeep?: Iterable<number>;
  signal?: AbortSignal;
}

const pruneNames = {
  model: 'handle',
  steps: 'list',
  keep: true,
  alsoKeep: true,
  signal: 'signal',
} satisfies OptionNames<PruneCheckpointsOptions>;

/**
 * Deletes the oldest checkpoints of the run. Returns the remaining steps.
 * @throws OptionError before anything is deleted; errors of the client.
 */
export async function pruneCheckpoints(options: PruneCheckpointsOptions): Promise<number[]> {
  requireOptions('pruneCheckpoints()', options, pruneNames, ['model', 'steps', 'keep']);
  const { model, steps, keep, alsoKeep = [], signal } = options;
  if (keep !== 'all') wholeNumberOption('invalid_run_option', 'keep', keep, 0);
  if (keep === 'all' || steps.length <= keep) return [...steps];
  const kept = new Set([...steps.slice(steps.length - keep), ...alsoKeep]);
  const removed = steps.filter((step) => !kept.has(step));
  if (removed.length === 0) return [...steps];
  await model.client.models.checkpoints.delete(requireModelId(model), { steps: removed }, { signal });
  return steps.filter((step) => kept.has(step));
}

/**
 * Ranks checkpoints by their newest validation, best first; on a tie the older comes first. Ignores validations in
 * which more than half of the rollouts failed.
 */
export function rankCheckpoints(
  evaluations: readonly RunValidation[],
  metric: 'reward' | 'success' = 'reward',
): { step: number; score: number }[] {
  const scores = new Map<number, number>();
  for (const evaluation of evaluations.filter(canRank)) {
    const score = evaluation[metric];
    if (score !== null) scores.set(evaluation.checkpoint, score);
  }
  return [...scores]
    .map(([step, score]) => ({ step, score }))
    .sort((a, b) => b.score - a.score || a.step - b.step);
}

/**
 * Deletes the checkpoints of learners that `keepCheckpoints` does not keep. Never rejects: if the service fails, it
 * warns (`martingale_checkpoints_not_deleted`) and tries again after the next step.
 */
export async function pruneLearners<Schema extends z.ZodType, Outcome>({
  settings,
  learners,
  state,
  reports,
  signal,
}: RunContext<Schema, Outcome>): Promise<void> {
  const { keepCheckpoints = trainDefaults.keepCheckpoints, maxStaleness = trainDefaults.maxStaleness } =
    settings;
  const {
    newest,
    best = 0,
    metric,
  } = typeof keepCheckpoints === 'object' ? keepCheckpoints : { newest: keepCheckpoints };
  for (const { model, state: learner, isPolicy } of learners) {
    const { checkpoints, policySteps } = learner;
    const alsoKeep = policySteps.slice(-maxStaleness - 1);
    if (isPolicy) {
      const ranked = rankCheckpoints(state.evaluations, metric).filter(({ step }) =>
        checkpoints.includes(step),
      );
      const pools = checkpointsOfPools({ seats: settings.seats, state, reports: reports(), maxStaleness });
      alsoKeep.push(...ranked.slice(0, best).map(({ step }) => step), ...pools);
    }
    try {
      learner.checkpoints = await withGrace(signal, stopGraceMs, (graceSignal) =>
        pruneCheckpoints({ model, steps: checkpoints, keep: newest, alsoKeep, signal: graceSignal }),
      );
    } catch (error) {
      warn(
        'martingale_checkpoints_not_deleted',
        `Old checkpoints of ${model.name} could not be deleted; the run continues: ${String(error)}`,
      );
    }
  }
}
