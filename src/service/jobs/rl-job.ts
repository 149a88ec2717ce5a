import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { rlConfigSchema, trajectoryGroupSchema } from '../../contract/index.ts';
import type { Constraint, Weights } from '../../engines/engine.ts';
import {
  type BatchCounts,
  makeDatums,
  type RewardedGroup,
  type RewardedTrajectory,
  resolveRlConfig,
} from '../../learning/index.ts';
import { ServiceError } from '../errors.ts';
import { validateItems } from '../validation.ts';
import type { PreparedJob } from './prepared-job.ts';
import { type TrajectoryDependencies, trajectorySequences } from './trajectory-sequences.ts';

/** What is kept of a job's request; its groups are validated in slices. */
export const rlPayloadSchema = z.object({ trajectory_groups: z.array(z.unknown()) });

export interface RlJobDependencies extends TrajectoryDependencies {
  /** The weights that `kl_penalty_reference_step` names; of null, the base model's. */
  reference: (step: number | null) => Promise<Weights>;
}

/** One gradient step over all groups. Rejects where nothing in them has a signal. */
export async function prepareRlJob(
  submitted: readonly unknown[],
  resolvedConfig: Record<string, unknown>,
  dependencies: RlJobDependencies,
  signal: AbortSignal,
): Promise<PreparedJob> {
  const { config, loss } = resolveRlConfig(rlConfigSchema.parse(resolvedConfig), {
    learningRate: dependencies.base.defaults.rlLearningRate,
  });
  const groups = await validateItems(trajectoryGroupSchema, submitted, ['trajectory_groups']);
  const rewarded: RewardedGroup<Constraint>[] = [];
  for (const [groupIndex, group] of groups.entries()) {
    // A group at a time: between them the requests of others get their turn.
    await nextTurn();
    signal.throwIfAborted();
    const trajectories: RewardedTrajectory<Constraint>[] = [];
    for (const [index, trajectory] of group.trajectories.entries()) {
      const location = ['trajectory_groups', groupIndex, 'trajectories', index];
      const sequences = await trajectorySequences(trajectory, location, dependencies);
      trajectories.push({ reward: trajectory.reward, sequences });
    }
    rewarded.push({ trajectories });
  }
  const { datums, counts } = makeDatums(rewarded, config);
  if (datums.length === 0) throw nothingTrainable(counts);
  const reference = loss.klPenalty ? await dependencies.reference(config.kl_penalty_reference_step) : null;
  const batch = { datums, loss, reference, learningRate: config.learning_rate };
  return {
    steps: 1,
    batches: (async function* () {
      yield { batch, counts: { ...counts } };
    })(),
  };
}

function nothingTrainable(counts: BatchCounts): ServiceError {
  const { num_groups_submitted: groups, num_groups_without_signal: silent } = counts;
  return new ServiceError(
    422,
    'nothing_trainable',
    `Nothing to train on: in none of the ${groups} groups (${counts.num_trajectories} trajectories) do rewards differ between trajectories with sampled tokens (num_groups_submitted ${groups}, num_groups_without_signal ${silent}, num_groups_trainable ${counts.num_groups_trainable}, num_trajectories ${counts.num_trajectories}). Give trajectories of one group different rewards.`,
  );
}
