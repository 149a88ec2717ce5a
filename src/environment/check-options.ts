import { z } from 'zod';
import type { RolloutLimits } from '../trajectory/index.ts';
import { isObject } from '../util/json.ts';
import { OptionError } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames, type OptionTree, objectOf } from '../util/option-names.ts';
import { showValue } from '../util/show-value.ts';
import type { LoopSettings } from './loop/pieces.ts';
import { ownMetrics } from './metrics.ts';
import type { LoopEnvironmentOptions, RolloutEnvironmentOptions, SharedOptions } from './options.ts';
import type { SeatEnvironmentOptions, SeatReward } from './seats.ts';
import type { TextSet } from './texts.ts';

type Shared = SharedOptions<z.ZodType, unknown, unknown>;
type RolloutOption = Exclude<
  keyof RolloutEnvironmentOptions<z.ZodType, unknown, unknown>,
  keyof Shared | 'prompt' | 'seats'
>;
type PieceOption = Exclude<
  keyof LoopEnvironmentOptions<z.ZodType, unknown, unknown>,
  keyof Shared | 'rollout' | 'seats'
>;

const sharedNames = {
  name: 'text',
  scenario: true,
  title: true,
  texts: true,
  limits: objectOf({
    turns: true,
    tokens: true,
    toolCalls: true,
    milliseconds: true,
  } satisfies OptionNames<RolloutLimits>),
  onUnansweredCall: true,
  setup: 'function',
  cleanup: 'function',
  cleanupTimeoutMs: 'numeric',
  rewards: 'object',
  groupRewards: 'object',
  credit: { discount: true },
} satisfies OptionNames<Shared>;
const rolloutNames: Record<RolloutOption, true | OptionTree> = {
  rollout: true,
  atLimit: true,
  onError: true,
};
const seatNames: Record<
  Exclude<keyof SeatEnvironmentOptions<z.ZodType, unknown, unknown, string>, keyof Shared | 'prompt'>,
  true | OptionTree
> = { ...rolloutNames, seats: true };
const pieceNames = {
  prompt: true,
  system: true,
  tools: true,
  toolExecution: true,
  onToolError: true,
  output: true,
  settings: objectOf({
    temperature: 'number',
    topP: 'number',
    topK: 'number',
    maxOutputTokens: 'number',
    presencePenalty: 'number',
    frequencyPenalty: 'number',
    stopSequences: 'list',
    reasoning: true,
    toolChoice: true,
    providerOptions: true,
  } satisfies OptionNames<LoopSettings>),
  observe: 'function',
  stop: 'function',
  onError: true,
} satisfies Record<PieceOption, OptionTree[string]>;
const weightedNames = { weight: true, reward: true } as const;
const seatRewardNames = { ...weightedNames, seats: true } satisfies OptionNames<
  SeatReward<unknown, unknown, unknown, string>
>;

interface CheckedOptions {
  name: string;
  scenario: unknown;
  title?: unknown;
  texts?: unknown;
  seats?: unknown;
  rollout?: unknown;
  prompt?: unknown;
  limits?: object;
  onUnansweredCall?: string;
  cleanupTimeoutMs?: number;
  rewards?: Readonly<Record<string, unknown>>;
  groupRewards?: Readonly<Record<string, unknown>>;
  credit?: { discount: number } | ((context: never) => unknown);
}

/** @throws OptionError (`unknown_option`, `invalid_environment`) for the first option that is unknown or invalid. */
export function checkOptions(options: CheckedOptions): void {
  const {
    name,
    scenario,
    title,
    texts,
    seats,
    rollout,
    prompt,
    limits = {},
    cleanupTimeoutMs = 1,
    credit,
  } = options;
  const { onUnansweredCall = 'error' } = options;
  const refusal = (option: string, value: unknown, problem: string) =>
    new OptionError('invalid_environment', `Environment "${name}": ${problem}`, { option, value });
  const invalid = (option: string, value: unknown, remedy: string) =>
    refusal(option, value, `\`${option}\` is ${showValue(value)}. ${remedy}`);

  if (typeof (rollout ?? prompt) !== 'function' || (rollout && prompt))
    throw refusal('rollout', rollout, 'give either `rollout` or `prompt`, as a function.');
  const [form, names, otherForm, otherNames] = rollout
    ? ['rollout', seatNames, 'prompt', pieceNames]
    : ['prompt', pieceNames, 'rollout', seatNames];
  for (const [option, value] of Object.entries(options))
    if (value !== undefined && Object.hasOwn(otherNames, option) && !Object.hasOwn(names, option))
      throw refusal(
        option,
        value,
        `\`${option}\` is an option of environments with \`${otherForm}\`; this one has \`${form}\`.`,
      );
  const allNames = { ...sharedNames, ...seatNames, ...pieceNames };
  checkOptionNames(`defineEnvironment({ name: "${name}" })`, options, allNames);
  if (!(scenario instanceof z.ZodType))
    throw invalid('scenario', scenario, 'Give a zod 4 schema, such as z.object({}).');
  if (title !== undefined && typeof title !== 'function')
    throw invalid('title', title, 'Give a function of a scenario that returns its title.');

  if (texts !== undefined) checkTexts(name, texts);

  const named = seats === undefined ? [] : seatsOf(seats);
  if (!named)
    throw refusal(
      'seats',
      seats,
      `\`seats\` is ${JSON.stringify(seats)}. Give the names of the seats, such as ["white", "black"], each once.`,
    );

  if (!['error', 'warn'].includes(onUnansweredCall))
    throw invalid('onUnansweredCall', onUnansweredCall, 'Give "error" or "warn".');
  for (const [field, limit] of Object.entries<unknown>({ ...limits })) {
    if (limit === undefined) continue;
    const isWhole = field !== 'milliseconds';
    if (typeof limit !== 'number' || !(limit > 0) || (isWhole && !Number.isInteger(limit)))
      throw invalid(
        `limits.${field}`,
        limit,
        `Give a ${isWhole ? 'whole ' : ''}number above 0, or leave it out.`,
      );
  }
  if (!(cleanupTimeoutMs > 0))
    throw invalid('cleanupTimeoutMs', cleanupTimeoutMs, 'Give milliseconds above 0.');
  if (credit === null || !['undefined', 'object', 'function'].includes(typeof credit))
    throw invalid('credit', credit, 'Give { discount }, or a function that returns the credit of each call.');
  if (typeof credit === 'object' && !(credit.discount >= 0 && credit.discount <= 1))
    throw invalid('credit.discount', credit.discount, 'Give a number from 0 to 1.');

  const { rewards = {}, groupRewards = {} } = options;
  for (const reward of Object.keys(groupRewards))
    if (Object.hasOwn(rewards, reward))
      throw refusal(
        `groupRewards.${reward}`,
        groupRewards[reward],
        `"${reward}" is the name of a reward and of a group reward. Rename one.`,
      );
  for (const [reward, value] of Object.entries({ ...rewards, ...groupRewards })) {
    const isWeighted = typeof value === 'object' && value !== null && 'reward' in value;
    if (typeof (isWeighted ? value.reward : value) !== 'function')
      throw refusal(
        reward,
        value,
        `the reward "${reward}" is ${showValue(value)}. Give a function or { weight, reward }.`,
      );
    if (isWeighted) {
      const known = named.length > 0 ? seatRewardNames : weightedNames;
      checkOptionNames(`The reward "${reward}" of environment "${name}"`, value, known);
      const scored: unknown = 'seats' in value && value.seats !== undefined ? seatsOf(value.seats) : named;
      if (!Array.isArray(scored) || scored.some((seat) => !named.includes(seat)))
        throw refusal(
          `rewards.${reward}.seats`,
          Reflect.get(value, 'seats'),
          `the reward "${reward}" is for the seats ${JSON.stringify(Reflect.get(value, 'seats'))}. Give some of ${named.join(', ')}.`,
        );
    }
    const weight: unknown = isWeighted
      ? (Reflect.get(value, 'weight') ?? (named.length > 0 ? 1 : undefined))
      : 1;
    if (!Number.isFinite(weight))
      throw refusal(
        reward,
        value,
        `the weight of reward "${reward}" is ${showValue(weight)}. Give a finite number.`,
      );
    if (ownMetrics.has(reward))
      throw refusal(reward, value, `"${reward}" is a reserved metric name. Give the reward another name.`);
  }
}

/**
 * Checks texts of an environment.
 * @param known Names of the texts that it has; other names are refused.
 * @throws OptionError (`invalid_environment`) for the first invalid one.
 */
export function checkTexts(environment: string, texts: unknown, known?: TextSet): void {
  const refusal = (option: string, value: unknown, problem: string) =>
    new OptionError('invalid_environment', `Environment "${environment}": ${problem}`, { option, value });
  if (!isObject(texts))
    throw refusal('texts', texts, `\`texts\` is ${showValue(texts)}. Give an object of texts by name.`);
  for (const [text, value] of Object.entries(texts)) {
    if (known && !Object.hasOwn(known, text))
      throw refusal(
        `texts.${text}`,
        value,
        `it has no text "${text}"${Object.keys(known).length > 0 ? `, but ${Object.keys(known).join(', ')}` : ''}. ` +
          'Name it in `defineEnvironment({ texts })`.',
      );
    if (typeof value !== 'string')
      throw refusal(`texts.${text}`, value, `the text "${text}" is ${showValue(value)}. Give a string.`);
  }
}

/** A list of different, non-empty names; undefined for anything else. */
function seatsOf(value: unknown): string[] | undefined {
  if (!Array.isArray(value) || value.length === 0 || new Set(value).size < value.length) return undefined;
  return value.every((name) => typeof name === 'string' && name.trim() !== '') ? value : undefined;
}
