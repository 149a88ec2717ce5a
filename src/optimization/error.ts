import { MartingaleError } from '../contract/index.ts';

/**
 * - `reflection_failed`: `reflect` threw or did not answer in time.
 * - `no_score`: rollouts of the environment's own texts did not complete, or none of a minibatch did, so there is
 *   nothing to compare.
 */
export type OptimizationErrorCode = 'reflection_failed' | 'no_score';

/** An optimisation cannot continue. Its directory is whole, and `resume` goes on from there. */
export class OptimizationError extends MartingaleError<OptimizationErrorCode> {}
