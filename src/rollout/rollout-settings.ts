import { isEnvironment } from '../environment/index.ts';
import { invalidOption, type OptionErrorCode, wholeNumberOption } from '../util/option-error.ts';
import type { OptionNames, OtherWords } from '../util/option-names.ts';
import { defaultConcurrency, inProcess, type RolloutExecutor } from './executor.ts';
import { defaultGroupStrategy, type GroupStrategy, neededRollouts } from './group-strategy.ts';

/** How rollouts run: the same settings for a run, an evaluation, groups and one group. */
export interface RolloutSettings {
  /** Where rollouts run; it stays open. Default: in this thread, `concurrency` at a time. */
  executor?: RolloutExecutor | undefined;
  /** Rollouts in flight at a time; not allowed together with `executor`. Default 256. */
  concurrency?: number | undefined;
  /** What happens to groups of which not all rollouts complete. Default: they train with 2 completed rollouts or more. */
  groupStrategy?: GroupStrategy | undefined;
  /** Deadline of one rollout and its rewards, in milliseconds. Default 600,000 (10 minutes). */
  timeoutMs?: number | undefined;
  /** Deadline of each reward in milliseconds. Default: that of the rollout, which includes its rewards. */
  rewardTimeoutMs?: number | undefined;
  /** Deadline of each group in milliseconds from its start, including the wait for a free slot. Default: none. */
  groupTimeoutMs?: number | undefined;
  /** All randomness of the rollouts follows from it. Default 0. */
  seed?: number | undefined;
  /** A call that cannot be trained on fails its rollout (`error`, the default) or is left out of it (`warn`). */
  onUnexpectedCall?: 'error' | 'warn' | undefined;
}

export const rolloutSettingNames = {
  executor: true,
  concurrency: true,
  groupStrategy: true,
  timeoutMs: true,
  rewardTimeoutMs: true,
  groupTimeoutMs: true,
  seed: true,
  onUnexpectedCall: true,
} satisfies OptionNames<RolloutSettings>;

/** The values of settings that are absent. `rewardTimeoutMs` follows `timeoutMs`. */
export const rolloutDefaults = {
  concurrency: defaultConcurrency,
  groupStrategy: defaultGroupStrategy,
  timeoutMs: 600_000,
  groupTimeoutMs: Number.POSITIVE_INFINITY,
  seed: 0,
  onUnexpectedCall: 'error',
} as const satisfies RolloutSettings;

/** Settings with their defaults; the executor says how many rollouts run at a time. */
export type WholeRolloutSettings = Required<{
  [Name in Exclude<keyof RolloutSettings, 'concurrency'>]: NonNullable<RolloutSettings[Name]>;
}>;

/** @throws OptionError for a setting that cannot be used with groups of `rolloutsPerGroup` rollouts. */
export function wholeRolloutSettings(
  settings: RolloutSettings,
  rolloutsPerGroup: number,
): WholeRolloutSettings {
  const { executor, concurrency } = settings;
  const groupStrategy = settings.groupStrategy ?? rolloutDefaults.groupStrategy;
  const timeoutMs = settings.timeoutMs ?? rolloutDefaults.timeoutMs;
  const rewardTimeoutMs = settings.rewardTimeoutMs ?? timeoutMs;
  const groupTimeoutMs = settings.groupTimeoutMs ?? rolloutDefaults.groupTimeoutMs;
  wholeNumberOption('invalid_rollout_option', 'rolloutsPerGroup', rolloutsPerGroup, 1);
  for (const [option, value] of Object.entries({ timeoutMs, rewardTimeoutMs, groupTimeoutMs }))
    requireMilliseconds(option, value);
  neededRollouts(groupStrategy, rolloutsPerGroup);
  if (executor && concurrency !== undefined)
    throw invalidOption(
      'invalid_rollout_option',
      'concurrency',
      concurrency,
      'There is an `executor` too, and it limits how many rollouts run at a time. Leave one of the two out.',
    );
  return {
    executor: executor ?? inProcess({ concurrency }),
    groupStrategy,
    timeoutMs,
    rewardTimeoutMs,
    groupTimeoutMs,
    seed: settings.seed ?? rolloutDefaults.seed,
    onUnexpectedCall: settings.onUnexpectedCall ?? rolloutDefaults.onUnexpectedCall,
  };
}

/** @throws OptionError where the value is not above 0. Infinity is allowed. */
export function requireMilliseconds(option: string, value: number): number {
  if (value > 0) return value;
  throw invalidOption('invalid_rollout_option', option, value, 'Give a time in milliseconds above 0.');
}

const inEnvironment =
  'Limits of a rollout belong to its environment: `defineEnvironment({ limits: { turns } })`.';

/** Where the limits of rollouts are, for functions that run them. */
export const limitWords = { maxturns: inEnvironment, limits: inEnvironment } satisfies OtherWords;

/**
 * Checks what nothing runs without, for callers whom no type has checked.
 * @throws OptionError with this code, for the first that is not what it has to be.
 */
export function checkEssentials(
  code: OptionErrorCode,
  { environment, scenarios, model }: { environment: unknown; scenarios: unknown; model: unknown },
): void {
  if (!Array.isArray(scenarios))
    throw invalidOption(code, 'scenarios', scenarios, 'Give a list of scenarios.');
  const isModel =
    typeof model === 'object' &&
    model !== null &&
    ['name', 'languageModel', 'endpoint'].every((field) => field in model);
  if (!isModel)
    throw invalidOption(
      code,
      'model',
      model,
      'Give a model, such as that of `openModel()`, or an `externalModel()`.',
    );
  checkEnvironment(code, environment);
}

/** As `checkEssentials`, of the environment alone. */
export function checkEnvironment(code: OptionErrorCode, environment: unknown): void {
  if (!isEnvironment(environment))
    throw invalidOption(code, 'environment', environment, 'Give one that `defineEnvironment()` made.');
}
