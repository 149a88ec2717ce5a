import { isEnvironment } from '../environment/index.ts';
import { invalidOption, type OptionErrorCode, wholeNumberOption } from '../util/option-error.ts';
import type { OptionNames, OtherWords } from '../util/option-names.ts';
import { defaultConcurrency, inProcess, type RolloutExecutor } from './executor.ts';
import { defaultGroupStrategy, type GroupStrategy, neededRollouts } from './group-strategy.ts';
import type { SeatModels } from './seat-models.ts';

/** How rollouts run. `train`, `evaluate`, `runGroups` and `runGroup` share these settings. */
export interface RolloutSettings {
  /**
   * Where rollouts run. The caller closes it.
   *
   * @default this thread, `concurrency` at a time
   * @example workerThreads({ environment: new URL('./environment.ts', import.meta.url) })
   */
  executor?: RolloutExecutor | undefined;
  /**
   * Rollouts in flight at a time; not allowed together with `executor`.
   *
   * @default 256
   * @example 32
   */
  concurrency?: number | undefined;
  /**
   * What happens to groups in which some rollouts fail.
   *
   * @default { type: 'minimum', rollouts: 2 }: they train with 2 or more completed rollouts
   * @example { type: 'retry', attempts: 3 }
   */
  groupStrategy?: GroupStrategy | undefined;
  /**
   * Deadline of one rollout and its rewards, in milliseconds.
   *
   * @default 600_000 (10 minutes)
   * @example 60_000
   */
  timeoutMs?: number | undefined;
  /**
   * Deadline of each reward, in milliseconds.
   *
   * @default `timeoutMs`, which also limits the rollout with its rewards
   * @example 10_000
   */
  rewardTimeoutMs?: number | undefined;
  /**
   * Deadline of each group, in milliseconds from its start, including waits for free slots.
   *
   * @default none
   * @example 300_000
   */
  groupTimeoutMs?: number | undefined;
  /**
   * Determines all randomness of the rollouts.
   *
   * @default 0
   * @example 7
   */
  seed?: number | undefined;
  /**
   * For an environment with seats: who plays which seat: a model or `opponents()`, whose trajectories are scored and
   * kept and not trained on, or a second model that trains, `{ model, trains: true }`.
   *
   * @default the model of the run plays every seat
   * @example { buyer: opponents({ players: [{ model: easyBuyer }] }) }
   */
  seats?: SeatModels | undefined;
  /**
   * A call that cannot be trained on fails its rollout (`error`) or is left out of it (`warn`).
   *
   * @default 'error'
   * @example 'warn'
   */
  onUnexpectedCall?: 'error' | 'warn' | undefined;
}

export const rolloutSettingNames = {
  executor: 'executor',
  concurrency: true,
  groupStrategy: true,
  timeoutMs: 'numeric',
  rewardTimeoutMs: 'numeric',
  groupTimeoutMs: 'numeric',
  seed: 'whole',
  seats: true,
  onUnexpectedCall: ['error', 'warn'],
} satisfies OptionNames<RolloutSettings>;

/** Default values. The default of `rewardTimeoutMs` is `timeoutMs`. */
export const rolloutDefaults = {
  concurrency: defaultConcurrency,
  groupStrategy: defaultGroupStrategy,
  timeoutMs: 600_000,
  groupTimeoutMs: Number.POSITIVE_INFINITY,
  seed: 0,
  onUnexpectedCall: 'error',
} as const satisfies RolloutSettings;

/** Settings with defaults applied. The executor replaces `concurrency`. */
export type WholeRolloutSettings = Required<{
  [Name in Exclude<keyof RolloutSettings, 'concurrency' | 'seats'>]: NonNullable<RolloutSettings[Name]>;
}> &
  Pick<RolloutSettings, 'seats'>;

/** Applies the defaults. @throws OptionError for an invalid setting, or one that does not fit `rolloutsPerGroup`. */
export function wholeRolloutSettings(
  settings: RolloutSettings,
  rolloutsPerGroup: number,
  code: OptionErrorCode = 'invalid_rollout_option',
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
      code,
      'concurrency',
      concurrency,
      '`executor` already limits how many rollouts run at a time. Remove one of the two.',
    );
  return {
    executor: executor ?? inProcess({ concurrency }),
    groupStrategy,
    timeoutMs,
    rewardTimeoutMs,
    groupTimeoutMs,
    seed: settings.seed ?? rolloutDefaults.seed,
    ...(settings.seats ? { seats: settings.seats } : {}),
    onUnexpectedCall: settings.onUnexpectedCall ?? rolloutDefaults.onUnexpectedCall,
  };
}

/** @throws OptionError if the value is not above 0. Infinity is allowed. */
export function requireMilliseconds(option: string, value: number): number {
  if (value > 0) return value;
  throw invalidOption('invalid_rollout_option', option, value, 'Pass milliseconds above 0.');
}

const inEnvironment =
  'Limits of a rollout belong to its environment: `defineEnvironment({ limits: { turns } })`.';

/** Hints for callers who pass limits of an environment as options. */
export const limitWords = { maxturns: inEnvironment, limits: inEnvironment } satisfies OtherWords;

/**
 * Checks the options that every run needs, for callers without type checks.
 * @throws OptionError with `code`, for the first invalid one.
 */
export function checkEssentials(
  code: OptionErrorCode,
  { environment, scenarios, model }: { environment: unknown; scenarios: unknown; model: unknown },
): void {
  if (!Array.isArray(scenarios))
    throw invalidOption(code, 'scenarios', scenarios, 'Pass a list of scenarios.');
  const isModel =
    typeof model === 'object' &&
    model !== null &&
    ['name', 'languageModel', 'endpoint'].every((field) => field in model);
  if (!isModel)
    throw invalidOption(code, 'model', model, 'Pass a model created by `openModel()` or `externalModel()`.');
  checkEnvironment(code, environment);
}

/** Checks the environment alone, as `checkEssentials` does. */
export function checkEnvironment(code: OptionErrorCode, environment: unknown): void {
  if (!isEnvironment(environment))
    throw invalidOption(
      code,
      'environment',
      environment,
      'Pass an environment created by `defineEnvironment()`.',
    );
}
