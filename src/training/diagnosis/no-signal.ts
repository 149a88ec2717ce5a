import { type Finding, groupsWithSignalShare, percent, type RunSoFar, shown } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

/** Rollouts of a group get equal rewards because the scenarios are solved: there is nothing left to learn from them. */
export function detectSolved(run: RunSoFar): Finding {
  const seen = silence(run);
  if (seen === null || !isSolved(run)) return null;
  return {
    message: `${seen} The scenarios are solved.`,
    lookAt: 'Harder scenarios, a reward that tells good from better, or the end of the run: `stopWhen`.',
  };
}

/** They get equal rewards because none succeeds: there is nothing to begin to learn from. */
export function detectUnsolved(run: RunSoFar): Finding {
  const seen = silence(run);
  if (seen === null || isSolved(run)) return null;
  return {
    message: `${seen} The scenarios are not being solved at all.`,
    lookAt:
      'A few trajectories by eye: does the reward see what it should? Then easier scenarios first, a reward in ' +
      'parts, a warm start, more rollouts per group, or a higher temperature.',
  };
}

/** Without a metric `success`: whether the reward stands nearer to the run's best than to its worst. */
export function isSolved(run: RunSoFar): boolean {
  const success = run.now(({ success }) => success);
  if (success !== null) return success >= alarmThresholds.noSignal.success;
  const rewards = run.rewards().map(({ reward }) => reward);
  const now = rewards.at(-1) ?? 0;
  return now - Math.min(...rewards) > Math.max(...rewards) - now;
}

/** The figures of groups without a difference in rewards; null where there are others enough. */
function silence(run: RunSoFar): string | null {
  const { noSignal, recentSteps } = alarmThresholds;
  if (run.recent.length < recentSteps) return null;
  const share = run.now(groupsWithSignalShare);
  const reward = run.now(({ reward }) => reward);
  if (share === null || reward === null || share >= noSignal.groups) return null;
  const success = run.now(({ success }) => success);
  return (
    `${percent(share)} of the groups had rewards that differ, over the last ${recentSteps} steps; the mean reward is ` +
    `${shown(reward)}${success === null ? '' : `, ${percent(success)} succeed`}.`
  );
}
