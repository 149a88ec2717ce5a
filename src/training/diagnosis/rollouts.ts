import { type Finding, percent, type RunSoFar, stepsOf, sum } from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

/** Tools and hosts that one message names. */
const mostNamed = 3;

const listed = (names: readonly string[]): string =>
  names.length > mostNamed
    ? `${names.slice(0, mostNamed).join(', ')} and ${names.length - mostNamed} more`
    : names.join(', ');

/** A tool throws so often that the policy cannot learn to use it. */
export function detectToolErrors({ recent }: RunSoFar): Finding {
  const { uses: least, share } = alarmThresholds.toolErrors;
  const counts = new Map<string, { runs: number; errors: number }>();
  for (const { tools } of recent)
    for (const [name, { uses, errors, invalid }] of Object.entries(tools)) {
      const before = counts.get(name) ?? { runs: 0, errors: 0 };
      // What was not run says nothing of the tool.
      counts.set(name, { runs: before.runs + uses - invalid, errors: before.errors + errors });
    }
  const isLong = recent.length >= alarmThresholds.recentSteps;
  const broken = [...counts]
    .filter(([, { runs, errors }]) => runs >= least && errors >= (isLong ? share : 1) * runs)
    .sort(([, a], [, b]) => b.errors - a.errors);
  if (broken.length === 0) return null;
  const told = broken.map(([name, { runs, errors }]) => `"${name}" in ${errors} of ${runs} uses`);
  return {
    message: `Tools failed over the last ${stepsOf(recent)}: ${listed(told)}.`,
    lookAt:
      'The results of these tools in the trajectories of the step, and the tool run by hand with an input from there: ' +
      'a tool that always throws looks like a policy that does not learn. What the policy may get wrong, the tool ' +
      "should answer in words that help. In environments of pieces, `onToolError: 'fail'` fails such rollouts.",
  };
}

/** Conversations or replies grow beyond what the model can hold. */
export function detectContextOverflow({ recent }: RunSoFar): Finding {
  const seen = shareOf(recent, ({ contextOverflows }) => contextOverflows);
  if (seen.share <= alarmThresholds.contextOverflow.share) return null;
  return {
    message:
      `${percent(seen.share)} of the rollouts (${seen.count} of ${seen.dispatched}) met the end of the model's context ` +
      `over the last ${stepsOf(recent)}: a prompt was too long, or a reply was cut with no limit of its own.`,
    lookAt:
      'What fills the context: long tool results and observations, many turns (`limits.turns`), or replies that do not ' +
      'end (`maxOutputTokens`, `limits.tokens`). `atLimit` scores what came of such a rollout where it would fail. Else ' +
      'a base model with a longer context.',
  };
}

/** Calls that nobody waits for are in no trajectory. */
export function detectCallsInFlight({ recent }: RunSoFar): Finding {
  const seen = shareOf(recent, ({ callsInFlight }) => callsInFlight);
  if (seen.share <= alarmThresholds.callsInFlight.share) return null;
  return {
    message:
      `In ${percent(seen.share)} of the rollouts (${seen.count} of ${seen.dispatched}) the agent returned while model ` +
      `calls were in flight, over the last ${stepsOf(recent)}. Those calls are neither recorded nor trained on.`,
    lookAt:
      'An `await` that is missing before a model call of the agent or of a tool, or a stream that is not read to its ' +
      'end. Wait for all calls before the rollout function returns; end those that you want to drop with an AbortSignal.',
  };
}

/** Code of rollouts calls models that are not the policy. */
export function detectOtherModels({ newest: { otherModels } }: RunSoFar): Finding {
  const requests = Object.entries(otherModels).sort(([, a], [, b]) => b - a);
  if (requests.length === 0) return null;
  return {
    message: `Rollouts called other models than the policy: ${listed(requests.map(([name, count]) => `${name} (${count})`))}. Those calls are neither recorded nor trained on.`,
    lookAt:
      'Which model each part of the agent is built on: what is to be trained calls `model.languageModel`, `policy()` or ' +
      '`model.endpoint()`. What belongs to the environment, such as a user simulator, calls its model within ' +
      '`runOutsideTrajectory(() => ...)`, and is not told of any more.',
  };
}

type Reports = RunSoFar['recent'];

function shareOf(recent: Reports, figure: (report: Reports[number]) => number) {
  const count = sum(recent.map(figure));
  const dispatched = sum(recent.map((report) => report.dispatched));
  return { count, dispatched, share: dispatched > 0 ? count / dispatched : 0 };
}
