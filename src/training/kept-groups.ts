import type { RolloutGroup } from '../rollout/index.ts';

interface InterruptedStep {
  /** Groups of the step. */
  count: number;
  /** Whether it was the step's turn to be logged and trained, once its rollouts had ended. */
  isNext: boolean;
}

/**
 * What stays of a step that was interrupted: groups in which a rollout completed. The others may be the doing of what
 * interrupted it, and run anew; not where the step may have been logged and trained without them.
 */
export function groupsThatStay(
  found: ReadonlyMap<number, RolloutGroup>,
  { count, isNext }: InterruptedStep,
): ReadonlyMap<number, RolloutGroup> {
  const completed = new Map([...found].filter(([, { trajectories }]) => trajectories.length > 0));
  const mayBeLogged = isNext && found.size === count && completed.size > 0;
  return mayBeLogged ? found : completed;
}
