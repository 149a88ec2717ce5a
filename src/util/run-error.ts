import { MartingaleError } from '../contract/basics.ts';

/**
 * - `resume_refused`: the directory holds a run that was started with different options.
 * - `run_in_use`: another process is using the run directory.
 * - `invalid_run_record`: a run directory cannot be read.
 * - `evaluation_directory_refused`: the directory holds a different evaluation, or a stored one cannot be read.
 * - `storage_failed`: writing to the disk failed.
 * - `replay_mismatch`: a replayed rollout made a different model call than the recorded one.
 * - `invalid_recorded_calls`: a file of recorded model calls cannot be read.
 * - `call_not_recorded`: a replayed model got a call that the file does not contain.
 */
export type RunErrorCode =
  | 'resume_refused'
  | 'run_in_use'
  | 'invalid_run_record'
  | 'evaluation_directory_refused'
  | 'storage_failed'
  | 'replay_mismatch'
  | 'invalid_recorded_calls'
  | 'call_not_recorded';

/** A record of a run, an evaluation or model calls cannot be read, written or continued. */
export class RunError extends MartingaleError<RunErrorCode> {}
