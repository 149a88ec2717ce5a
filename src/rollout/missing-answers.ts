import { MartingaleError } from '../contract/index.ts';
import { describeThrown, unansweredCallsMetric } from '../environment/index.ts';
import type { Trajectory } from '../trajectory/index.ts';
import { ownModelAdvice } from './own-model.ts';

/**
 * Fails a rollout whose agent continued after a call that got no answer, or warns of it.
 * @throws MartingaleError (`call_unanswered`) unless the environment only warns of them.
 */
export function settleUnanswered(trajectory: Trajectory, decision: 'error' | 'warn'): void {
  const { unansweredCalls } = trajectory.observations;
  if (decision === 'warn') {
    trajectory.metrics[unansweredCallsMetric] = unansweredCalls.length;
    for (const error of unansweredCalls)
      trajectory.logs.push(`A model call got no answer: ${describeThrown(error)}`);
    return;
  }
  const [cause] = unansweredCalls;
  if (unansweredCalls.length === 0) return;
  throw new MartingaleError(
    'call_unanswered',
    `A model call got no answer, and the agent went on without it: ${sentence(describeThrown(cause))} The policy did not cause ` +
      "this, so the rollout has no reward. For an agent that means to go on, set `onUnansweredCall: 'warn'` in its environment.",
    { cause },
  );
}

const sentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);

/** The error for a rollout without an answered call: there is nothing to train on. */
export function whyNothingRecorded(model: string, { stopReason, observations }: Trajectory): MartingaleError {
  if (stopReason !== null) {
    const why =
      stopReason === 'context_limit'
        ? ' Its first prompt is longer than the context of the model.'
        : stopReason.startsWith('error:')
          ? ` ${ownModelAdvice}`
          : '';
    const what = `The rollout ended (${stopReason}) before "${model}" had answered a call.${why}`;
    return new MartingaleError('nothing_recorded', what);
  }
  const { unfinishedCalls, otherModels, contextOverflows } = observations;
  if (contextOverflows > 0)
    return new MartingaleError(
      'nothing_recorded',
      `The agent returned without an answered call to "${model}": its prompt was longer than the context of the model, and ` +
        'the agent went on without an answer. Shorten the prompt, or let the error pass: `onError` and `atLimit` can score it.',
    );
  if (unfinishedCalls > 0)
    return new MartingaleError(
      'calls_in_flight',
      `The agent returned while ${unfinishedCalls === 1 ? 'its call' : `${unfinishedCalls} calls`} to "${model}" had ` +
        'no answer yet, and no other call was answered. Await every call before the rollout function returns, and read ' +
        'a stream to its end.',
    );
  const others = Object.keys(otherModels);
  const instead = others.length > 0 ? ` Its requests went to ${others.join(', ')}.` : '';
  return new MartingaleError(
    'nothing_recorded',
    `The agent returned without an answered call to "${model}".${instead} Pass \`model.languageModel\` to the agent or build it ` +
      `on policy(), and await its calls. ${ownModelAdvice}`,
  );
}
