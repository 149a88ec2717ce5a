import { addUses, type ToolUses } from '../../trajectory/index.ts';
import { sumOf } from '../../util/sums.ts';
import { greedyAdvice } from './no-signal.ts';
import { type Finding, formatNumber, mostFrequent, percent, type RunSoFar, stepsOf } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

/** Maximum number of tools or hosts named in one message. */
const maxNamed = 3;

const listed = (names: readonly string[]): string =>
  names.length > maxNamed
    ? `${names.slice(0, maxNamed).join(', ')} and ${names.length - maxNamed} more`
    : names.join(', ');

/** A tool fails so often that the policy cannot learn to use it. */
export function detectToolErrors({ recent }: RunSoFar): Finding {
  const { uses: minUses, share } = alarmThresholds.toolErrors;
  const counts = new Map<string, ToolUses>();
  for (const { tools } of recent)
    for (const [name, uses] of Object.entries(tools)) counts.set(name, addUses(counts.get(name), uses));
  const isLong = recent.length >= alarmThresholds.recentSteps;
  const broken = [...counts]
    // Invalid uses never ran the tool.
    .map(([name, { uses, invalid, ...rest }]) => [name, { runs: uses - invalid, ...rest }] as const)
    .filter(([, { runs, errors }]) => runs >= minUses && errors >= (isLong ? share : 1) * runs)
    .sort(([, a], [, b]) => b.errors - a.errors);
  if (broken.length === 0) return null;
  const shares = broken.map(
    ([name, { runs, errors, error }]) =>
      `"${name}" in ${errors} of ${runs} uses${error === undefined ? '' : ` (${error})`}`,
  );
  return {
    message: `Tools failed over the last ${stepsOf(recent)}: ${listed(shares)}.`,
    lookAt:
      'The results of these tools in the trajectories of the step; run the tool by hand with an input from there. A ' +
      'tool that always throws looks like a policy that does not learn. If the policy may be wrong, the tool should ' +
      "answer with text that helps. In environments built from pieces, `onToolError: 'fail'` fails such rollouts.",
  };
}

/** Conversations or replies exceed the model's context. */
export function detectContextOverflow({ recent }: RunSoFar): Finding {
  const seen = shareOf(recent, ({ contextOverflows }) => contextOverflows);
  if (seen.share <= alarmThresholds.contextOverflow.share) return null;
  return {
    message:
      `${percent(seen.share)} of the rollouts (${seen.count} of ${seen.dispatched}) exceeded the model's context over ` +
      `the last ${stepsOf(recent)}: a prompt was too long, or a reply without its own limit was cut.`,
    lookAt:
      'What fills the context: long tool results and observations, many turns (`limits.turns`), or replies that do not ' +
      'end (`maxOutputTokens`, `limits.tokens`). `atLimit` scores such a rollout instead of failing it. Otherwise use a ' +
      'base model with a longer context.',
  };
}

/** Agents return before their calls are answered, so these calls are missing from trajectories. */
export function detectCallsInFlight({ recent }: RunSoFar): Finding {
  const seen = shareOf(recent, ({ callsInFlight }) => callsInFlight);
  if (seen.share <= alarmThresholds.callsInFlight.share) return null;
  return {
    message:
      `In ${percent(seen.share)} of the rollouts (${seen.count} of ${seen.dispatched}) the agent returned while model ` +
      `calls were in flight, over the last ${stepsOf(recent)}. Those calls are neither recorded nor trained on.`,
    lookAt:
      'A missing `await` before a model call of the agent or of a tool, or a stream that is not read to its end. Wait ' +
      'for all calls before the rollout function returns; cancel those that you want to drop with an AbortSignal.',
  };
}

/** Rollouts call models other than the policy. */
export function detectOtherModels({ newest: { otherModels } }: RunSoFar): Finding {
  const requests = Object.entries(otherModels).sort(([, a], [, b]) => b - a);
  if (requests.length === 0) return null;
  return {
    message: `Rollouts called models other than the policy: ${listed(requests.map(([name, count]) => `${name} (${count})`))}. Those calls are neither recorded nor trained on.`,
    lookAt:
      'Which model each part of the agent uses: parts to train call `model.languageModel`, `policy()` or ' +
      '`model.endpoint()`. Parts of the environment, such as a user simulator, call their model within ' +
      '`runOutsideTrajectory(() => ...)`; such calls raise no alarm.',
  };
}

type Reports = RunSoFar['recent'];

function shareOf(recent: Reports, figure: (report: Reports[number]) => number) {
  const count = sumOf(recent.map(figure));
  const dispatched = sumOf(recent.map((report) => report.dispatched));
  return { count, dispatched, share: dispatched > 0 ? count / dispatched : 0 };
}

/** Replies repeat themselves. */
export function detectRepeatedText(run: RunSoFar): Finding {
  const { share, timesStart } = alarmThresholds.repeatedText;
  if (!run.hasHistory) return null;
  const now = run.now(({ repeatedShare }) => repeatedShare) ?? 0;
  const start = run.start(({ repeatedShare }) => repeatedShare) ?? 0;
  if (now <= share || now <= timesStart * start) return null;
  return {
    message: `${percent(now)} of the four-token sequences of replies repeat an earlier one of the same reply; at the start, ${percent(start)} did.`,
    lookAt:
      'The longest replies of the last step. A reward that grows with length, or a limit that cuts replies, teaches ' +
      'this: score the end of the reply, lower the learning rate, or set kl_penalty_coef.',
  };
}

const unexpectedCall = 'unexpected_call_';

/** Calls were answered by another model or step than the rollout's, or without token ids. */
export function detectWrongModel({ newest }: RunSoFar): Finding {
  const failed = Object.entries(newest.failures).filter(([code]) => code.startsWith(unexpectedCall));
  const count = sumOf(failed, ([, rollouts]) => rollouts);
  const leftOut = newest.metrics.unexpected_calls ?? 0;
  if (count === 0 && leftOut === 0) return null;
  const codes = failed.map(([code, rollouts]) => `${rollouts} x ${code}`).join(', ');
  return {
    message:
      count > 0
        ? `${count} of ${newest.dispatched} rollouts failed because a call cannot be trained on: ${codes}.`
        : 'Calls that cannot be trained on were left out of trajectories; their `logs` say which.',
    lookAt:
      'Which model the agent calls: the rollout passes it `model`, pinned to one step. For a judge or teacher on the ' +
      'same service, use `model.with({ record: false })`. Training requires a service with return_token_ids.',
  };
}

/** Too many rollouts end without a reward. */
export function detectFailures(run: RunSoFar): Finding {
  const share = run.now(({ failed, dispatched }) => (dispatched > 0 ? failed / dispatched : null)) ?? 0;
  if (share <= alarmThresholds.failures.share) return null;
  const codes = run.recent.flatMap(({ failures }) => Object.entries(failures));
  return {
    message: `${percent(share)} of the rollouts failed over the last ${stepsOf(run.recent)}, most often with ${mostFrequent(codes)}.`,
    lookAt:
      'The `failures` in the trajectories of the step: each has its message and what was recorded before it. A failed ' +
      'rollout is not a reward of 0: what mostly fails is missing from the training data.',
  };
}

/** Synchronous work blocked the event loop for too long. */
export function detectEventLoopHeld({ newest }: RunSoFar): Finding {
  const { loopHeldMs = 0, seconds } = newest;
  const { sumMs, share } = alarmThresholds.eventLoopHeld;
  if (loopHeldMs < Math.max(sumMs, share * seconds * 1000)) return null;
  return {
    message:
      `Code of this process held the event loop for ${formatNumber(loopHeldMs / 1000)} s in a step of ` +
      `${formatNumber(seconds)} s: deadlines, other rollouts and signals waited.`,
    lookAt:
      'Synchronous work of the environment: large files parsed at once, execSync, busy loops. Time that the process ' +
      'waited for a processor is not in that figure. Run such work with ' +
      '`executor: workerThreads(...)`, or in its own process.',
  };
}

/** The agent samples greedily, so the rollouts of a group are alike and cannot be compared. */
export function detectGreedySampling({ newest: { comparison } }: RunSoFar): Finding {
  if (comparison === null || comparison.greedy === 0) return null;
  const { compared, greedy, alike } = comparison;
  if (greedy < alarmThresholds.greedySampling.groups * compared) return null;
  return {
    message:
      `All calls of ${greedy} of ${compared} groups sampled greedily (temperature 0, or top_k 1); in ${alike} groups the ` +
      'replies are the same. Rollouts that do not differ teach nothing.',
    lookAt: greedyAdvice,
  };
}
