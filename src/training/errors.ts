import { MartingaleError } from '../contract/index.ts';
import { commonFailures, type RolloutGroup } from '../rollout/index.ts';
import { invalidOption, OptionError } from '../util/option-error.ts';

/**
 * - `no_completed_rollouts`: no rollout of a step or validation completed, so there is nothing to train on or report.
 *   When the run is resumed, these rollouts run again.
 * - `training_job_failed`: a training job ended without a checkpoint. The message has the service's reason.
 * - `training_job_timeout`: a training job exceeded its deadline and was cancelled.
 * - `training_job_unknown`: it is unknown whether the service received or finished a training job.
 * - `scenario_timeout`: the source of scenarios did not return any within its deadline.
 */
export type TrainingErrorCode =
  | 'no_completed_rollouts'
  | 'training_job_failed'
  | 'training_job_timeout'
  | 'training_job_unknown'
  | 'scenario_timeout';

/** A run or a single training job cannot continue. */
export class TrainingError extends MartingaleError<TrainingErrorCode> {
  /** Id of the training job, for `training_job_failed` and `training_job_timeout`. */
  readonly jobId: string | undefined;
  /** Whether the job failed because the service's process ended too often, which need not be the job's doing. */
  readonly isProcessLost: boolean;

  constructor(
    code: TrainingErrorCode,
    message: string,
    { jobId, isProcessLost = false }: { jobId?: string; isProcessLost?: boolean } = {},
  ) {
    super(code, message);
    this.jobId = jobId;
    this.isProcessLost = isProcessLost;
  }
}

export const jobFailed = (jobId: string, what: string, { isProcessLost = false } = {}) =>
  new TrainingError(
    'training_job_failed',
    `Training job ${jobId} ${what.replace(/\.$/, '')}. No checkpoint was created.`,
    { jobId, isProcessLost },
  );

export const noCompletedRollouts = (where: string, groups: readonly RolloutGroup[]) =>
  new TrainingError(
    'no_completed_rollouts',
    `No rollout of ${where} completed: ${commonFailures(groups)}. Fix the cause, then continue with \`resume\`; these ` +
      'rollouts run again.',
  );

/** An error with a message such as `` `steps` is 0. Pass a whole number of at least 1. `` */
export const invalidRunOption = (option: string, value: unknown, remedy: string) =>
  invalidOption('invalid_run_option', option, value, remedy);

/** For options that contradict each other, or that are incomplete. */
export const runOptionError = (option: string, message: string) =>
  new OptionError('invalid_run_option', message, { option });

export const noScenarios = () =>
  runOptionError('scenarios', '`scenarios` is empty: there is nothing to run.');
