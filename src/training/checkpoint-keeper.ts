import type { z } from 'zod';
import type { ModelHandle } from '../model/index.ts';
import { pruneCheckpoints, rankCheckpoints } from './checkpoints.ts';
import { stopGraceMs, withGrace } from './grace.ts';
import type { RunState } from './run-state.ts';
import { trainDefaults } from './train-defaults.ts';
import type { TrainSettings } from './train-options.ts';

/**
 * Deletes the checkpoints of a run that need not stay; gives those that are left. A service that refuses is warned of
 * (`martingale_checkpoints_not_deleted`), and asked again after the next step.
 */
export async function keepPruned<Schema extends z.ZodType, Outcome>(
  {
    keepCheckpoints = trainDefaults.keepCheckpoints,
    maxStaleness = trainDefaults.maxStaleness,
    signal,
  }: TrainSettings<Schema, Outcome>,
  { model, state }: { model: ModelHandle; state: RunState },
): Promise<number[]> {
  const { checkpoints, policySteps, evaluations, finishedSteps } = state;
  const {
    newest,
    best = 0,
    metric,
  } = typeof keepCheckpoints === 'object' ? keepCheckpoints : { newest: keepCheckpoints };
  const sampled = policySteps.slice(Math.max(0, finishedSteps - maxStaleness));
  const ranked = rankCheckpoints(evaluations, metric).filter(({ step }) => checkpoints.includes(step));
  const alsoKeep = [...sampled, ...ranked.slice(0, best).map(({ step }) => step)];
  try {
    return await withGrace(signal, stopGraceMs, (patient) =>
      pruneCheckpoints({ model, made: checkpoints, keep: newest, alsoKeep, signal: patient }),
    );
  } catch (error) {
    process.emitWarning(
      `Checkpoints of ${model.name} that need not stay could not be deleted; the run goes on: ${String(error)}`,
      { code: 'martingale_checkpoints_not_deleted' },
    );
    return checkpoints;
  }
}
