/*
 * What always holds of groups:
 * - Each scenario gives one group, in the order of the scenarios, whatever the order in which they end.
 * - No rollout throws: it ends completed, failed or cancelled. Only callbacks and bad input make `runGroups` throw.
 * - `onGroup` gets each group that ran once, and none after one call has thrown.
 * - When `runGroups` returns or throws, all of its rollouts have ended.
 */
import type { z } from 'zod';
import { type Environment, ScenarioError } from '../environment/index.ts';
import type { RolloutModel } from '../model/index.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { problemsOf } from '../util/show-value.ts';
import { sumOf } from '../util/sums.ts';
import { countRollouts, type RolloutCounts, trajectoriesOf } from './rollout.ts';
import { RolloutGroup } from './rollout-group.ts';
import {
  checkEssentials,
  limitWords,
  type RolloutSettings,
  rolloutSettingNames,
  wholeRolloutSettings,
} from './rollout-settings.ts';
import { runGroup } from './run-group.ts';
import { checkSeats } from './seat-models.ts';

export interface RunGroupsOptions<Schema extends z.ZodType, Outcome> extends RolloutSettings {
  environment: Environment<Schema, Outcome>;
  /** One group runs for each scenario. */
  scenarios: readonly z.input<Schema>[];
  rolloutsPerGroup: number;
  /** Pin it (`model.at(step)`), so that a call answered by another step fails its rollout. */
  model: RolloutModel;
  /** Groups of an earlier call, by scenario index. They do not run again. Default: none. */
  kept?: ReadonlyMap<number, RolloutGroup> | undefined;
  /**
   * Called with each group that ran, as soon as it ends, and awaited. If it throws, the other groups are cancelled and
   * the error is rethrown.
   */
  onGroup?: ((group: RolloutGroup<z.output<Schema>>) => Promise<void> | void) | undefined;
  /** Called when a rollout ends, with the number of finished ones. A rollout that is retried does not count yet. */
  onProgress?: ((progress: { done: number; total: number }) => void) | undefined;
  /** Cancels the unfinished rollouts. The groups are still returned. */
  signal?: AbortSignal | undefined;
}

export const runGroupsNames = {
  ...rolloutSettingNames,
  environment: true,
  scenarios: true,
  rolloutsPerGroup: true,
  model: true,
  kept: true,
  onGroup: 'function',
  onProgress: 'function',
  signal: 'signal',
} satisfies OptionNames<RunGroupsOptions<z.ZodType, unknown>>;

export interface GroupsResult<Scenario> {
  /** In the order of the scenarios. */
  groups: RolloutGroup<Scenario>[];
  /** Counts over all attempts of all groups. */
  counts: RolloutCounts;
  /** Number of tokens sampled by all rollouts. */
  sampledTokens: number;
  /** Wall-clock milliseconds. */
  durationMs: number;
}

/**
 * Runs `rolloutsPerGroup` rollouts of each scenario. Each ends completed, failed or cancelled; a failed rollout does
 * not throw.
 * @throws OptionError, ScenarioError before any rollout begins; any error thrown by `onGroup` or `onProgress`.
 */
export async function runGroups<Schema extends z.ZodType, Outcome>(
  options: RunGroupsOptions<Schema, Outcome>,
): Promise<GroupsResult<z.output<Schema>>> {
  checkOptionNames('runGroups()', options, runGroupsNames, limitWords);
  checkEssentials('invalid_rollout_option', options);
  return runParsedGroups({
    ...options,
    scenarios: await parseScenarios(options.environment, options.scenarios),
  });
}

/** `runGroups` for scenarios that `parseScenarios` has parsed. */
export async function runParsedGroups<Schema extends z.ZodType, Outcome>({
  scenarios,
  kept,
  onGroup,
  onProgress,
  signal,
  concurrency,
  ...options
}: Omit<RunGroupsOptions<Schema, Outcome>, 'scenarios'> & {
  scenarios: readonly z.output<Schema>[];
}): Promise<GroupsResult<z.output<Schema>>> {
  const startedAt = performance.now();
  // One executor for all groups.
  const settings = wholeRolloutSettings({ ...options, concurrency }, options.rolloutsPerGroup);
  checkSeats(options.environment, settings.seats);
  const failed = new AbortController();
  const ending = signal ? AbortSignal.any([signal, failed.signal]) : failed.signal;
  const total = scenarios.length * options.rolloutsPerGroup;
  let done = (kept?.size ?? 0) * options.rolloutsPerGroup;
  if (done > 0) onProgress?.({ done, total });

  const run = async (scenario: z.output<Schema>, index: number) => {
    const before = kept?.get(index);
    if (before) return new RolloutGroup<z.output<Schema>>({ ...before, index, scenario });
    const group = await runGroup({
      ...options,
      ...settings,
      scenario,
      group: index,
      onRollout: (_, { isLast }) => isLast && onProgress?.({ done: ++done, total }),
      signal: ending,
    });
    if (!failed.signal.aborted) await onGroup?.(group);
    return group;
  };
  const running = scenarios.map(run);
  try {
    const groups = await Promise.all(running);
    const all = groups.flatMap((group) => group.rollouts);
    return {
      groups,
      counts: countRollouts(all),
      sampledTokens: sumOf(all.flatMap(trajectoriesOf), ({ sampledTokens }) => sampledTokens),
      durationMs: performance.now() - startedAt,
    };
  } catch (error) {
    failed.abort(error);
    await Promise.allSettled(running);
    throw error;
  }
}

/**
 * Parses scenarios with the environment's schema.
 * @throws ScenarioError for the first scenario that does not match it.
 */
export async function parseScenarios<Schema extends z.ZodType, Outcome>(
  { name, scenario: schema }: Environment<Schema, Outcome>,
  scenarios: readonly z.input<Schema>[],
): Promise<z.output<Schema>[]> {
  const parsed: z.output<Schema>[] = [];
  for (const [index, scenario] of scenarios.entries()) {
    const result = await schema.safeParseAsync(scenario);
    if (!result.success)
      throw new ScenarioError(
        'invalid_scenario',
        `Scenario ${index} does not fit the schema of environment "${name}": ${problemsOf(`scenarios[${index}]`, scenario, result.error)}`,
        { cause: result.error },
      );
    parsed.push(result.data);
  }
  return parsed;
}
