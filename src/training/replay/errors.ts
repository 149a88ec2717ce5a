import { MartingaleError } from '../../contract/index.ts';

/** A run directory cannot be read. */
export class RunRecordError extends MartingaleError {
  constructor(message: string, options?: ErrorOptions) {
    super('invalid_run_record', message, options);
  }
}

/** A rollout that is replayed made another model call than the recorded one made. */
export class ReplayMismatchError extends MartingaleError {
  constructor(what: string) {
    super('replay_mismatch', what);
  }
}
