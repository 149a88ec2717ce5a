import { MartingaleError } from '../contract/index.ts';

/**
 * Why a call is not what a rollout expects.
 *
 * - `outside_rollout`: made through a rollout's handle where no rollout is, so that no trajectory holds it.
 * - `base_model`: a base model answered in place of the checkpoint that the rollout is pinned to.
 * - `other_step`: another checkpoint of the same model answered.
 * - `other_model`: another model answered.
 * - `token_ids_missing`: the service gave no token ids, and text is never tokenized again for training.
 */
export type UnexpectedCallReason =
  | 'outside_rollout'
  | 'base_model'
  | 'other_step'
  | 'other_model'
  | 'token_ids_missing';

/** A model call that cannot be trained on as it stands: see `reason`. */
export class UnexpectedCallError extends MartingaleError {
  readonly reason: UnexpectedCallReason;

  constructor(reason: UnexpectedCallReason, message: string) {
    super(`unexpected_call_${reason}`, message);
    this.reason = reason;
  }
}

/** A model was called in a rollout that has already ended: its trajectory is closed and takes nothing more. */
export class TrajectoryClosedError extends MartingaleError {
  constructor(trajectoryId: string) {
    super(
      'trajectory_closed',
      `A model was called in rollout ${trajectoryId} after that rollout had ended. Await every call inside the ` +
        'rollout function, and pass its `signal` on so that work stops when the rollout does.',
    );
  }
}

/** A trajectory was changed after it was handed over to be trained on. */
export class TrajectorySealedError extends MartingaleError {
  constructor(trajectoryId: string) {
    super(
      'trajectory_sealed',
      `Trajectory ${trajectoryId} was handed over to be written and trained on: it cannot be changed any more. Give ` +
        'rewards and credit in the environment, or before the group is submitted.',
    );
  }
}

/** An external model's trajectory was to be trained on: its replies are messages, without the tokens that were sampled. */
export class NotTrainableError extends MartingaleError {
  constructor(trajectoryId: string, model: string) {
    super(
      'not_trainable',
      `Trajectory ${trajectoryId} was recorded from the external model "${model}", which gives no token ids: it can be ` +
        'read, scored and compared, and not trained on. Run the rollouts that train with a model of the service.',
    );
  }
}
