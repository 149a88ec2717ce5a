import { randomUUID } from 'node:crypto';
import type { RlConfig } from '../contract/index.ts';
import { type ModelHandle, requireModelId } from '../model/index.ts';
import type { TrajectoryGroup } from '../trajectory/index.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { configNames } from './option-names.ts';

export interface SubmitTrainingOptions {
  model: ModelHandle;
  /** Groups without a trajectory are left out: they have nothing to train on. */
  groups: readonly TrajectoryGroup[];
  config?: RlConfig;
  /**
   * A repeat with the same key and body gives the job that the first one made; not so on a service that knows no keys,
   * where an error for which `mayHaveActed` holds says that there may be a job. Default: a new one.
   */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

const submitNames = {
  model: true,
  groups: true,
  config: configNames,
  idempotencyKey: true,
  signal: true,
} satisfies OptionNames<SubmitTrainingOptions>;

/**
 * Asks for a reinforcement-learning job on finished groups; follow it with `followJob`. Their trajectories cannot be
 * changed from here on.
 * @throws NotTrainableError for a trajectory of an external model.
 */
export async function submitTraining(options: SubmitTrainingOptions): Promise<{ jobId: string }> {
  checkOptionNames('submitTraining()', options, submitNames);
  const { model, groups, config, idempotencyKey = randomUUID(), signal } = options;
  for (const { trajectories } of groups) {
    for (const trajectory of trajectories) {
      trajectory.requireTrainable();
      trajectory.seal();
    }
  }
  const { id } = await model.client.trainingJobs.create(
    {
      model_id: requireModelId(model),
      trajectory_groups: groups
        .filter(({ trajectories }) => trajectories.length > 0)
        .map((group) => group.toBody()),
      experimental_config: config,
    },
    { idempotencyKey, signal },
  );
  return { jobId: id };
}

export interface LogTrajectoriesOptions {
  model: ModelHandle;
  /** Scenario split: `train`, `val`, `test`. */
  split: string;
  groups: readonly TrajectoryGroup[];
  /** A repeat with the same key and body is not stored again. Default: every call is. */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

const logNames = {
  model: true,
  split: true,
  groups: true,
  idempotencyKey: true,
  signal: true,
} satisfies OptionNames<LogTrajectoriesOptions>;

/** Stores finished groups with the model on the service. */
export async function logTrajectories(options: LogTrajectoriesOptions): Promise<void> {
  checkOptionNames('logTrajectories()', options, logNames);
  const { model, split, groups, idempotencyKey, signal } = options;
  await model.client.models.log(
    requireModelId(model),
    { split, trajectory_groups: groups.map((group) => group.toBody()) },
    { idempotencyKey, signal },
  );
}
