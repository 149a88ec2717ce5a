import { type Finding, percent, type RunSoFar, stepsOf } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

/** Replies go round in circles. */
export function detectRepeatedText(run: RunSoFar): Finding {
  const { share, timesStart } = alarmThresholds.repeatedText;
  if (!run.hasHistory) return null;
  const now = run.now(({ repeatedShare }) => repeatedShare) ?? 0;
  const start = run.start(({ repeatedShare }) => repeatedShare) ?? 0;
  if (now <= share || now <= timesStart * start) return null;
  return {
    message: `${percent(now)} of the four-token sequences of replies stood earlier in the same reply; at the start ${percent(start)} did.`,
    lookAt:
      'The longest replies of the last step. A reward that grows with length, or a limit that cuts replies before ' +
      'their end, teaches this: score the end of the reply, lower the learning rate, or set kl_penalty_coef.',
  };
}

const unexpectedCall = 'unexpected_call_';

/** Calls were answered by another model or step than the rollout's, or without token ids. */
export function detectWrongModel({ newest }: RunSoFar): Finding {
  const failed = Object.entries(newest.failures).filter(([code]) => code.startsWith(unexpectedCall));
  const count = failed.reduce((sum, [, rollouts]) => sum + rollouts, 0);
  const leftOut = newest.metrics.unexpected_calls ?? 0;
  if (count === 0 && leftOut === 0) return null;
  const codes = failed.map(([code, rollouts]) => `${rollouts} x ${code}`).join(', ');
  return {
    message:
      count > 0
        ? `${count} of ${newest.dispatched} rollouts failed because a call cannot be trained on: ${codes}.`
        : 'Calls that cannot be trained on were left out of trajectories; `logs` of those say which.',
    lookAt:
      'Which model the agent calls: the rollout gives it `model`, pinned to one step. A judge or teacher on the same ' +
      'service is `model.with({ record: false })`; a service without return_token_ids cannot be trained with.',
  };
}

/** Too many rollouts end without a reward. */
export function detectFailures(run: RunSoFar): Finding {
  const share = run.now(({ failed, dispatched }) => (dispatched > 0 ? failed / dispatched : null)) ?? 0;
  if (share <= alarmThresholds.failures.share) return null;
  const counts = new Map<string, number>();
  for (const { failures } of run.recent)
    for (const [code, count] of Object.entries(failures)) counts.set(code, (counts.get(code) ?? 0) + count);
  const [code, count] = [...counts].sort(([, a], [, b]) => b - a)[0] ?? ['unknown', 0];
  return {
    message: `${percent(share)} of the rollouts failed over the last ${stepsOf(run.recent)}, most often with ${code} (${count}).`,
    lookAt:
      'The `failures` in the trajectories of the step: each has its message and what was recorded until then. ' +
      'Failed rollouts are no zeros; what fails more often than it succeeds is missing from what is learned.',
  };
}
