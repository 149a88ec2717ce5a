import type { NoSignalCause } from '../../progress/index.ts';
import { largestOf, smallestOf } from '../../util/extremes.ts';
import { causeOf, type Evidence, evidenceOf } from './no-signal-cause.ts';
import {
  type Detector,
  type Finding,
  formatNumber,
  groupsWithSignalShare,
  percent,
  type RunSoFar,
} from './run-so-far.ts';
import { alarmThresholds } from './thresholds.ts';

interface Explanation {
  /** The end of the alarm's message. */
  says: (evidence: Evidence) => string;
  lookAt: string | ((evidence: Evidence) => string);
}

const shareText = (count: number, { compared }: Evidence): string => `${count} of ${compared} groups`;

const isMostly = (count: number, { compared }: Evidence): boolean =>
  count >= alarmThresholds.noSignal.agreeing * compared;

const explanations: Record<NoSignalCause, Explanation> = {
  solved: {
    says: (evidence) =>
      evidence.solved === null
        ? `The scenarios seem solved: every rollout gets ${formatNumber(evidence.runRange.max)}, the best reward of the run.`
        : `The scenarios are solved: in ${shareText(evidence.solved, evidence)} every rollout succeeds.`,
    lookAt: ({ hasEverDiffered }) =>
      (hasEverDiffered
        ? ''
        : 'Every rollout of this run has earned the same: read a few first. If their replies differ in quality, the reward ' +
          'does not see it. ') +
      'Use harder scenarios or a reward that tells good from better, or end the run with `stopWhen`.',
  },
  unsolved: {
    says: (evidence) =>
      evidence.unsolved === null
        ? `The scenarios are no longer solved: every rollout gets ${formatNumber(evidence.runRange.min)}, the worst reward of the run.`
        : evidence.success > 0
          ? `The scenarios are hardly or only partly solved: in ${shareText(evidence.unsolved, evidence)} no rollout has a success of 1.`
          : `The scenarios are not solved at all: in ${shareText(evidence.unsolved, evidence)} no rollout succeeds.`,
    lookAt:
      'Read a few trajectories: does the reward see what it should? Then try easier scenarios first, a reward in parts, ' +
      'a warm start, more rollouts per group, or a higher temperature.',
  },
  always_or_never: {
    says: (evidence) =>
      evidence.solved === null || evidence.unsolved === null
        ? `Each scenario always ends the same way, with the reward ${evidence.equalRewardValues.map(formatNumber).join(' or ')}.`
        : `Each scenario always ends the same way: in ${shareText(evidence.solved, evidence)} every rollout succeeds, in ${evidence.unsolved} none does.`,
    lookAt:
      'Use scenarios of medium difficulty: remove solved ones, make the others easier, or reward them in parts. More ' +
      'rollouts per group find the rare success. If these rewards do not mean success and failure, check that the ' +
      'reward reads the reply.',
  },
  constant_reward: {
    says: ({ equalRewardValues, runRange, hasEverDiffered }) =>
      `Every rollout got the reward ${equalRewardValues.map(formatNumber).join()}` +
      (hasEverDiffered
        ? `; earlier in the run rewards went from ${formatNumber(runRange.min)} to ${formatNumber(runRange.max)}.`
        : ', whatever the scenario and the reply.'),
    lookAt: ({ equalRewardValues: [reward = 0] }) =>
      'Call the reward function by hand with a good and a bad reply: does it read the outcome, and does the outcome ' +
      'contain what the agent did? `rescore` tries a changed reward on recorded trajectories. If the reward is right, ' +
      (reward > 0
        ? 'every reply earns it already: use harder scenarios, or a reward that tells good from better.'
        : 'no reply has earned anything yet: reward parts of the task, or start with easier scenarios.'),
  },
  replies_alike: {
    says: (evidence) =>
      `In ${shareText(evidence.alike, evidence)} all rollouts sampled the same replies, token for token` +
      (isMostly(evidence.greedy, evidence)
        ? ': their calls are greedy (temperature 0, or top_k 1).'
        : isMostly(evidence.agentSeeds, evidence)
          ? ': the agent sets the seed of its calls.'
          : '.'),
    lookAt: (evidence) =>
      isMostly(evidence.greedy, evidence)
        ? greedyAdvice
        : isMostly(evidence.agentSeeds, evidence)
          ? 'Remove `seed` from the settings of the agent. Each call of a rollout then has its own seed, and the same one ' +
            'when the run is repeated.'
          : 'The policy has collapsed to one reply, or the scenario leaves it no choice. Continue from an earlier ' +
            'checkpoint with a lower learning rate, `entropy_coefficient` or `kl_penalty_coef`; raise the temperature.',
  },
  reward_ignores_replies: {
    says: (evidence) =>
      `In ${shareText(evidence.equalRewards, evidence)} replies differ but rewards do not: rewards depend on the scenario, not ` +
      'on the reply.',
    lookAt:
      'What does the reward read: the outcome and the trajectory, or only the scenario and state that the agent does not ' +
      'change? Call it by hand with two different replies; `rescore` tries a changed reward on recorded trajectories.',
  },
  not_compared: {
    says: ({ compared, groups }) =>
      `Only ${compared} of ${groups} groups had two completed rollouts, and rewards are compared within a group.`,
    lookAt:
      'The `failures` in the trajectories of the step say why rollouts fail. If failures are random, a `groupStrategy` ' +
      'that retries or more rollouts per group helps.',
  },
  unknown: {
    says: () => 'The reports of these steps do not show why.',
    lookAt:
      'Some groups in the trajectories of the step: rewards, replies and success, if the environment has it. Equal ' +
      'rewards come from scenarios that are always or never solved, from replies that are all alike, or from a reward ' +
      'that does not depend on the reply.',
  },
};

export const greedyAdvice =
  'Remove `temperature: 0` (or `topK: 1`) from the settings of the agent, so that calls are sampled at temperature 1, ' +
  'or override it: `train({ model: model.with({ temperature: 1 }) })`. Evaluations are greedy by default.';

/**
 * One detector for each cause, so that a new cause raises a new alarm. For each: whether its alarm continues in a step
 * in which it finds nothing.
 */
export const noSignalDetectors: ReadonlyMap<Detector, (run: RunSoFar) => boolean> = new Map(
  Object.entries(explanations).map(([cause, explanation]) => [
    (run: RunSoFar) => detectNoSignal(run, cause, explanation),
    cause === 'solved' ? isStillSolved : (run: RunSoFar) => noSignal(run) !== null,
  ]),
);

function detectNoSignal(run: RunSoFar, expected: string, { says, lookAt }: Explanation): Finding {
  const begin = noSignal(run);
  if (begin === null) return null;
  const evidence = evidenceOf(run);
  const cause = causeOf(evidence);
  if (cause !== expected) return null;
  // Solved scenarios are good news, so that comes first.
  const message = cause === 'solved' ? `${says(evidence)} ${begin}` : `${begin} ${says(evidence)}`;
  return { cause, message, lookAt: typeof lookAt === 'string' ? lookAt : lookAt(evidence) };
}

/** Solved scenarios stay solved if only single steps have a signal. Without the metric `success`, rewards decide. */
function isStillSolved(run: RunSoFar): boolean {
  const success = run.now(({ success }) => success);
  if (success !== null) return success >= alarmThresholds.noSignal.success;
  const rewards = run.rewards().map(({ reward }) => reward);
  const now = rewards.at(-1) ?? 0;
  return now - smallestOf(rewards) > largestOf(rewards) - now;
}

/** The start of the message if too few groups have different rewards, else null. */
function noSignal(run: RunSoFar): string | null {
  const { noSignal, recentSteps } = alarmThresholds;
  if (run.recent.length < recentSteps) return null;
  const share = run.now(groupsWithSignalShare);
  const reward = run.now(({ reward }) => reward);
  if (share === null || reward === null || share >= noSignal.groups) return null;
  const success = run.now(({ success }) => success);
  return (
    `${percent(share)} of the groups had different rewards over the last ${recentSteps} steps; the mean reward is ` +
    `${formatNumber(reward)}${success === null ? '' : `, the mean success is ${percent(success)}`}.`
  );
}
