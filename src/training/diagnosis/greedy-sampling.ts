import { greedyAdvice } from './no-signal.ts';
import type { Finding, RunSoFar } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

/** The agent asks for the likeliest token: the rollouts of a group come out alike, and there is nothing to compare. */
export function detectGreedySampling({ newest: { comparison } }: RunSoFar): Finding {
  if (comparison === null || comparison.greedy === 0) return null;
  const { compared, greedy, alike } = comparison;
  if (greedy < alarmThresholds.greedySampling.groups * compared) return null;
  return {
    message:
      `All calls of ${greedy} of ${compared} groups took the likeliest token each time (temperature 0, or top_k 1); in ` +
      `${alike} groups the replies are the same. Rollouts that do not differ teach nothing.`,
    lookAt: greedyAdvice,
  };
}
