import type { GroupsResult } from '../../rollout/index.ts';

/** A round that takes longer is not repeated: what it loads and compiles is little beside it. */
const longRoundMs = 5000;
/** How long to repeat rounds with a model in this process, where they cost nothing. */
const repeatMs = 1000;

interface Pace {
  /** The round that has run. */
  first: GroupsResult<unknown>;
  /** Runs the same round again. */
  again: () => Promise<GroupsResult<unknown>>;
  /** Whether the model is one of this process. */
  isFree: boolean;
  signal: AbortSignal;
}

/**
 * Rollouts a second, of the fastest round. The first one loads modules, and V8 compiles what it runs as it goes, so quick
 * rounds run again: once, or for a second if the model is one of this process.
 */
export async function measurePace({ first, again, isFree, signal }: Pace): Promise<number> {
  let fastest = paceOf(first);
  const startedAt = performance.now();
  let { durationMs, counts } = first;
  while (durationMs < longRoundMs && counts.completed > 0 && !signal.aborted) {
    ({ durationMs, counts } = await again());
    fastest = Math.max(fastest, paceOf({ durationMs, counts }));
    if (!isFree || performance.now() - startedAt > repeatMs) break;
  }
  return fastest;
}

const paceOf = ({ counts, durationMs }: Pick<GroupsResult<unknown>, 'counts' | 'durationMs'>): number =>
  (counts.completed / Math.max(1, durationMs)) * 1000;
