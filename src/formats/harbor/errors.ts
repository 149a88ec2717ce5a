import { MartingaleError } from '../../contract/index.ts';

/**
 * - `sandbox_away`: what sandboxes are made with cannot be used: it is not installed, away, or refuses the key
 * - `sandbox_failed`: a sandbox could not be made or filled, or ended before its time
 * - `task_unsupported`: a task folder asks for what is not done here, or cannot be read
 * - `verifier_timeout`: the tests of a task did not end within `verifier.timeout_sec`
 * - `reward_unreadable`: the tests wrote no reward, or one that cannot be read
 */
export type HarborErrorCode =
  | 'sandbox_away'
  | 'sandbox_failed'
  | 'task_unsupported'
  | 'verifier_timeout'
  | 'reward_unreadable';

/** A failure of a task folder or of a sandbox: its rollout has no reward. */
export class HarborError extends MartingaleError<HarborErrorCode> {}
