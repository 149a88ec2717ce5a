import type { NoSignalCause } from '../../progress/index.ts';
import {
  type Detector,
  type Finding,
  formatNumber,
  groupsWithSignalShare,
  percent,
  type RunSoFar,
} from './run-so-far.ts';
import { causeOf, type Evidence, evidenceOf } from './silence.ts';
import { alarmThresholds } from './thresholds.ts';

interface Explanation {
  /** The end of the alarm's message. */
  says: (evidence: Evidence) => string;
  lookAt: string | ((evidence: Evidence) => string);
}

const of = (count: number, { compared }: Evidence): string => `${count} of ${compared} groups`;

const isMostly = (count: number, { compared }: Evidence): boolean =>
  count >= alarmThresholds.noSignal.agreeing * compared;

const explanations: Record<NoSignalCause, Explanation> = {
  solved: {
    says: (evidence) =>
      evidence.solved === null
        ? `The scenarios are solved, as it seems: every rollout gets ${formatNumber(evidence.runRange.max)}, the best reward of the run.`
        : `The scenarios are solved: in ${of(evidence.solved, evidence)} every rollout succeeds.`,
    lookAt: 'Harder scenarios, a reward that tells good from better, or the end of the run: `stopWhen`.',
  },
  unsolved: {
    says: (evidence) =>
      evidence.unsolved === null
        ? `The scenarios are no longer solved: every rollout gets ${formatNumber(evidence.runRange.min)}, the worst reward of the run.`
        : evidence.success > 0
          ? `The scenarios are hardly solved, or only in part: in ${of(evidence.unsolved, evidence)} no rollout has a success of 1.`
          : `The scenarios are not being solved at all: in ${of(evidence.unsolved, evidence)} no rollout succeeds.`,
    lookAt:
      'A few trajectories by eye: does the reward see what it should? Then easier scenarios first, a reward in ' +
      'parts, a warm start, more rollouts per group, or a higher temperature.',
  },
  always_or_never: {
    says: (evidence) =>
      evidence.solved === null || evidence.unsolved === null
        ? `Each scenario always comes out the same, with the reward ${evidence.equalRewardValues.map(formatNumber).join(' or ')}.`
        : `Each scenario always comes out the same: in ${of(evidence.solved, evidence)} every rollout succeeds, in ${evidence.unsolved} none does.`,
    lookAt:
      'Scenarios of a difficulty in between: leave out what is solved, make the others easier, or give them a reward ' +
      'in parts. More rollouts per group find the rare success. If these rewards are not those of success and failure, ' +
      'check that the reward reads the reply.',
  },
  constant_reward: {
    says: ({ equalRewardValues, runRange, hasEverDiffered }) =>
      `Every rollout got the reward ${equalRewardValues.map(formatNumber).join()}` +
      (hasEverDiffered
        ? `; earlier in the run rewards went from ${formatNumber(runRange.min)} to ${formatNumber(runRange.max)}.`
        : ', in scenarios of every kind and whatever the reply.'),
    lookAt:
      'The reward function, called by hand with a good and with a bad reply: does it read the outcome, and does that ' +
      'hold what the agent did? `rescore` tries a changed reward on recorded trajectories. If the reward is right, no ' +
      'reply has earned anything yet: give a reward in parts, or start with easier scenarios.',
  },
  replies_alike: {
    says: (evidence) =>
      `In ${of(evidence.alike, evidence)} all rollouts sampled the same replies, token for token` +
      (isMostly(evidence.greedy, evidence)
        ? ': their calls took the likeliest token each time (temperature 0, or top_k 1).'
        : isMostly(evidence.agentSeeds, evidence)
          ? ': the agent gives its calls a seed of its own.'
          : '.'),
    lookAt: (evidence) =>
      isMostly(evidence.greedy, evidence)
        ? greedyAdvice
        : isMostly(evidence.agentSeeds, evidence)
          ? 'The settings of the agent: leave `seed` out. Each call of a rollout then has a seed of its own, and the ' +
            'same one when the run is repeated.'
          : 'The policy has collapsed to one reply, or the scenario leaves it no choice. Go on from an earlier ' +
            'checkpoint with a lower learning rate, `entropy_coefficient` or `kl_penalty_coef`; raise the temperature.',
  },
  reward_ignores_replies: {
    says: (evidence) =>
      `Within groups replies differ and rewards never do, in ${of(evidence.equalRewards, evidence)}: rewards depend on ` +
      'the scenario, not on the reply.',
    lookAt:
      'What the reward reads: the outcome and the trajectory, or only the scenario and state that the agent does not ' +
      'change? Call it by hand with two different replies; `rescore` tries a changed reward on recorded trajectories.',
  },
  not_compared: {
    says: ({ compared, groups }) =>
      `Only ${compared} of ${groups} groups had two completed rollouts, and rewards are compared within a group.`,
    lookAt:
      'Why rollouts fail: the `failures` in the trajectories of the step. A `groupStrategy` that tries again, or more ' +
      'rollouts per group, helps where failures are by chance.',
  },
  unknown: {
    says: () => 'The reports of these steps do not tell why.',
    lookAt:
      'Some groups in the trajectories of the step: rewards, replies and, where the environment has it, success. ' +
      'Equal rewards come from scenarios that are solved or never solved, from replies that are all alike, or from a ' +
      'reward that does not depend on the reply.',
  },
};

export const greedyAdvice =
  'The settings of the agent: leave `temperature: 0` (or `topK: 1`) out, so that calls are sampled at temperature 1; ' +
  'or have it overridden: `train({ model: model.with({ temperature: 1 }) })`. Evaluations are greedy by themselves.';

const causes: readonly NoSignalCause[] = [
  'solved',
  'unsolved',
  'always_or_never',
  'constant_reward',
  'replies_alike',
  'reward_ignores_replies',
  'not_compared',
  'unknown',
];

/** One detector for each cause, so that a new cause raises a new alarm. */
export const silenceDetectors: readonly Detector[] = causes.map(
  (cause) => (run) => detectSilence(run, cause),
);

/** For each detector: whether its alarm continues in a step in which it finds nothing. */
export const lastingSilence: ReadonlyMap<Detector, (run: RunSoFar) => boolean> = new Map(
  silenceDetectors.map((detector, at) => [
    detector,
    causes[at] === 'solved' ? isStillSolved : (run: RunSoFar) => silence(run) !== null,
  ]),
);

function detectSilence(run: RunSoFar, cause: NoSignalCause): Finding {
  const seen = silence(run);
  if (seen === null) return null;
  const evidence = evidenceOf(run);
  if (causeOf(evidence) !== cause) return null;
  const { says, lookAt } = explanations[cause];
  return {
    cause,
    message: `${seen} ${says(evidence)}`,
    lookAt: typeof lookAt === 'string' ? lookAt : lookAt(evidence),
  };
}

/** Solved scenarios stay solved if only single steps have a signal. Without the metric `success`, rewards decide. */
function isStillSolved(run: RunSoFar): boolean {
  const success = run.now(({ success }) => success);
  if (success !== null) return success >= alarmThresholds.noSignal.success;
  const rewards = run.rewards().map(({ reward }) => reward);
  const now = rewards.at(-1) ?? 0;
  return now - Math.min(...rewards) > Math.max(...rewards) - now;
}

/** The start of the message if too few groups have different rewards, else null. */
function silence(run: RunSoFar): string | null {
  const { noSignal, recentSteps } = alarmThresholds;
  if (run.recent.length < recentSteps) return null;
  const share = run.now(groupsWithSignalShare);
  const reward = run.now(({ reward }) => reward);
  if (share === null || reward === null || share >= noSignal.groups) return null;
  const success = run.now(({ success }) => success);
  return (
    `${percent(share)} of the groups had rewards that differ, over the last ${recentSteps} steps; the mean reward is ` +
    `${formatNumber(reward)}${success === null ? '' : `, the mean success is ${percent(success)}`}.`
  );
}
