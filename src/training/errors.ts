import { MartingaleError } from '../contract/index.ts';
import { commonFailures, type RolloutGroup } from '../rollout/index.ts';

/** A training job ended without a checkpoint; the message has the service's reason. */
export class TrainingJobError extends MartingaleError {
  readonly jobId: string;

  constructor(jobId: string, what: string) {
    super('training_job_failed', `Training job ${jobId} ${what}. No checkpoint was made.`);
    this.jobId = jobId;
  }
}

/** A training job took longer than its deadline and was cancelled. */
export class TrainingJobTimeoutError extends MartingaleError {
  readonly jobId: string;

  constructor(jobId: string, timeoutMs: number) {
    super(
      'training_job_timeout',
      `Training job ${jobId} did not end within ${timeoutMs} ms and was cancelled. Raise the deadline, or look at ` +
        'the job and at what is queued before it on the service.',
    );
    this.jobId = jobId;
  }
}

/** It cannot be known whether the service has done, or does, a training job that was asked for. */
export class TrainingJobUnknownError extends MartingaleError {
  constructor({ name, why, model, seen, goOn }: Record<'name' | 'why' | 'model' | 'seen' | 'goOn', string>) {
    super(
      'training_job_unknown',
      `${name}: it is not known whether the service has it, and it is not asked for twice. ${why} The model is ` +
        `${model}; ${seen}. ${goOn}`,
    );
  }
}

/** No rollout of a step or a validation completed, so there is nothing to learn or to say. A run that goes on runs them anew. */
export class NoCompletedRolloutsError extends MartingaleError {
  constructor(where: string, groups: readonly RolloutGroup[]) {
    super(
      'no_completed_rollouts',
      `No rollout of ${where} completed: ${commonFailures(groups)}. Mend the cause, then go on with \`resume\`: these ` +
        'rollouts run anew.',
    );
  }
}

/** A source of scenarios gave none within its deadline. */
export class ScenarioTimeoutError extends MartingaleError {
  constructor(step: number, timeoutMs: number) {
    super(
      'scenario_timeout',
      `The source of scenarios did not give those of step ${step + 1} within ${timeoutMs} ms. Raise \`scenarioTimeoutMs\`, ` +
        'or look at what its generator waits for.',
    );
  }
}

/** An option of a run that cannot be met. */
export class RunOptionError extends MartingaleError {
  constructor(message: string) {
    super('invalid_run_option', message);
  }
}

/** A run cannot go on from its directory: it is of another run, or something in it cannot be read. */
export class ResumeError extends MartingaleError {
  constructor(message: string, options?: ErrorOptions) {
    super('resume_refused', message, options);
  }
}

/** Another run works in the run directory at this moment. */
export class RunInUseError extends MartingaleError {
  constructor(path: string, options?: ErrorOptions) {
    super(
      'run_in_use',
      `Another run works in ${path} at this moment. Wait for its end or stop it, or choose another \`runDirectory\`.`,
      options,
    );
  }
}
