import { MartingaleError } from '../contract/index.ts';

/**
 * A model call that cannot be trained on as it stands. `model_mismatch`: another model or step answered than the
 * one the rollout is pinned to. `token_ids_missing`: the service gave no token ids, and text is never tokenized
 * again for training.
 */
export class UnexpectedCallError extends MartingaleError {
  readonly reason: 'model_mismatch' | 'token_ids_missing';

  constructor(reason: UnexpectedCallError['reason'], message: string) {
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
