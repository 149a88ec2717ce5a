import { type Finding, type RunSoFar, shown } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

/** Something computed for so long without awaiting that everything else waited for it. */
export function detectEventLoopHeld({ newest }: RunSoFar): Finding {
  const { loopDelayMs = 0 } = newest;
  if (loopDelayMs < alarmThresholds.eventLoopHeld.longestMs) return null;
  return {
    message: `The event loop was held for ${shown(loopDelayMs / 1000)} s at once: deadlines, other rollouts and signals waited.`,
    lookAt:
      'What the environment computes without awaiting: large files parsed at once, execSync, busy loops. Run it with ' +
      '`executor: workerThreads(...)`, or in a process of its own.',
  };
}
