import { z } from 'zod';
import type { RolloutLimits } from '../trajectory/index.ts';
import { checkOptionNames, type OptionNames, type OptionTree } from '../util/option-names.ts';
import type { LoopSettings } from './loop/pieces.ts';
import { ownMetrics } from './metrics.ts';
import type { LoopEnvironmentOptions, RolloutEnvironmentOptions, SharedOptions } from './options.ts';
import type { WeightedReward } from './rewards/reward.ts';

type Shared = SharedOptions<z.ZodType, unknown, unknown>;
type OfRollout = Exclude<
  keyof RolloutEnvironmentOptions<z.ZodType, unknown, unknown>,
  keyof Shared | 'prompt'
>;
type OfPieces = Exclude<keyof LoopEnvironmentOptions<z.ZodType, unknown, unknown>, keyof Shared | 'rollout'>;

const shared = {
  name: true,
  scenario: true,
  limits: {
    turns: true,
    tokens: true,
    toolCalls: true,
    milliseconds: true,
  } satisfies OptionNames<RolloutLimits>,
  setup: true,
  cleanup: true,
  cleanupTimeoutMs: true,
  rewards: true,
  groupRewards: true,
  credit: { discount: true },
} satisfies OptionNames<Shared>;
const ofRollout: Record<OfRollout, true | OptionTree> = {
  rollout: true,
  atLimit: true,
  onError: true,
};
const ofPieces: Record<OfPieces, true | OptionTree> = {
  prompt: true,
  system: true,
  tools: true,
  toolExecution: true,
  onToolError: true,
  output: true,
  settings: {
    temperature: true,
    topP: true,
    topK: true,
    maxOutputTokens: true,
    presencePenalty: true,
    frequencyPenalty: true,
    stopSequences: true,
    reasoning: true,
    toolChoice: true,
    providerOptions: true,
  } satisfies OptionNames<LoopSettings>,
  observe: true,
  stop: true,
  onError: true,
};
const allNames = { ...shared, ...ofRollout, ...ofPieces };

/**
 * Checks the names of options for callers without TypeScript.
 * @throws OptionError for an unknown option; TypeError for an option of the other form, or a `scenario` that is not a
 * zod schema.
 */
export function checkNames(options: object & { name: string; scenario: unknown; rollout?: unknown }): void {
  const environment = `environment "${options.name}"`;
  const [own, other] = options.rollout ? [ofRollout, ofPieces] : [ofPieces, ofRollout];
  const [form, otherForm] = options.rollout ? ['rollout', 'prompt'] : ['prompt', 'rollout'];
  const foreign = Object.entries(options).find(
    ([name, value]) => value !== undefined && Object.hasOwn(other, name) && !Object.hasOwn(own, name),
  );
  if (foreign)
    throw new TypeError(
      `\`${foreign[0]}\` of ${environment} belongs to the form with \`${otherForm}\`, and this one has \`${form}\`.`,
    );
  checkOptionNames(`defineEnvironment({ name: "${options.name}" })`, options, allNames);
  if (!(options.scenario instanceof z.ZodType))
    throw new TypeError(
      `\`scenario\` of ${environment} is no zod schema (zod 4); give one, such as z.object({}).`,
    );
}

const weightedNames = { weight: true, reward: true } satisfies OptionNames<WeightedReward<unknown, unknown>>;

/** @throws OptionError for an unknown field; TypeError for what is neither a function nor `{ weight, reward }`. */
export function checkRewards(rewards: Readonly<Record<string, unknown>>, environment: string): void {
  for (const [name, given] of Object.entries(rewards)) {
    if (typeof given === 'function') continue;
    const weighed = typeof given === 'object' && given !== null && 'reward' in given ? given.reward : null;
    if (typeof weighed === 'function' && typeof given === 'object' && given !== null)
      checkOptionNames(`The reward "${name}" of environment "${environment}"`, given, weightedNames);
    if (typeof weighed !== 'function')
      throw new TypeError(
        `The reward "${name}" of environment "${environment}" is none; give a function, or { weight, reward }.`,
      );
  }
}

interface Checked {
  name: string;
  limits?: RolloutLimits | undefined;
  cleanupTimeoutMs?: number | undefined;
  credit?: { discount: number } | ((context: never) => unknown) | undefined;
}

/** @throws TypeError or RangeError with the field, its value and the valid range. */
export function checkOptions(
  { name, limits = {}, cleanupTimeoutMs, credit }: Checked,
  weights: ReadonlyMap<string, number>,
): void {
  const environment = `environment "${name}"`;
  for (const [field, limit] of Object.entries(limits)) checkLimit(field, limit, environment);
  if (cleanupTimeoutMs !== undefined && !(cleanupTimeoutMs > 0))
    throw new RangeError(
      `\`cleanupTimeoutMs\` of ${environment} is ${cleanupTimeoutMs}; give milliseconds above 0.`,
    );
  if (typeof credit === 'object' && !(credit.discount >= 0 && credit.discount <= 1))
    throw new RangeError(
      `\`credit.discount\` of ${environment} is ${credit.discount}; give a number from 0 to 1.`,
    );
  for (const [reward, weight] of weights) {
    if (!Number.isFinite(weight))
      throw new TypeError(`The weight of reward "${reward}" is ${weight}; give a finite number.`);
    if (ownMetrics.has(reward))
      throw new TypeError(
        `"${reward}" is a metric of its own in every environment; give the reward another name.`,
      );
  }
  // With `credit`, an environment may have step rewards only.
  if (credit === undefined && ![...weights.values()].some((weight) => weight !== 0))
    throw new TypeError(
      `Environment "${name}" has no reward with a weight other than 0: nothing to learn from. Give \`rewards\` or ` +
        '`groupRewards`, or `credit` where all rewards are step rewards.',
    );
}

function checkLimit(field: string, limit: unknown, environment: string): void {
  if (limit === undefined) return;
  const whole = field !== 'milliseconds';
  if (typeof limit !== 'number' || !(limit > 0) || (whole && !Number.isInteger(limit)))
    throw new RangeError(
      `\`limits.${field}\` of ${environment} is ${String(limit)}; give a ${whole ? 'whole ' : ''}number above 0, or leave it out.`,
    );
}
