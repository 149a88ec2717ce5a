import type { z } from 'zod';
import type { Environment } from '../environment/index.ts';
import type { RolloutModel } from '../model/index.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import type { RolloutExecutor } from './executor.ts';
import { inProcess } from './executor.ts';
import { defaultGroupStrategy, type GroupStrategy, neededRollouts } from './group-strategy.ts';
import { countRollouts, type RolloutCounts } from './rollout.ts';
import type { RolloutGroup } from './rollout-group.ts';
import {
  limitWords,
  milliseconds,
  missingEssential,
  parseScenarios,
  RolloutOptionError,
  wholeNumber,
} from './rollout-settings.ts';
import { runGroup } from './run-group.ts';

export interface RunGroupsOptions<Schema extends z.ZodType, Outcome> {
  environment: Environment<Schema, Outcome>;
  /** One group for each, in this order. */
  scenarios: readonly z.input<Schema>[];
  rolloutsPerGroup: number;
  /** Pin it (`model.at(step)`): then a call that another step answers fails its rollout. */
  model: RolloutModel;
  /** Where rollouts run; it stays open. Default: in this thread, `concurrency` at a time. */
  executor?: RolloutExecutor;
  /** Rollouts in flight at a time, where no `executor` says it. Default 256. */
  concurrency?: number;
  /** What becomes of groups that do not complete. Default: they train with 2 completed rollouts or more. */
  groupStrategy?: GroupStrategy;
  /** Deadline of one rollout and its rewards, in milliseconds. Default 600,000 (10 minutes). */
  timeoutMs?: number;
  /** Deadline of each reward in milliseconds. Default: that of the rollout, within which it is. */
  rewardTimeoutMs?: number;
  /** Deadline of each group in milliseconds, from the call on: waiting for room counts. Default: none. */
  groupTimeoutMs?: number;
  /** All randomness of the rollouts follows from it. Default 0. */
  seed?: number;
  /** A call that cannot be trained on fails its rollout (`error`, the default) or is left out of it (`warn`). */
  onUnexpectedCall?: 'error' | 'warn';
  /** Called as rollouts end, with how many have; one that is tried again has not. */
  onProgress?: (progress: { done: number; total: number }) => void;
  /** Cancels what has not ended; the groups are still returned. */
  signal?: AbortSignal;
}

export const runGroupsNames = {
  environment: true,
  scenarios: true,
  rolloutsPerGroup: true,
  model: true,
  executor: true,
  concurrency: true,
  groupStrategy: true,
  timeoutMs: true,
  rewardTimeoutMs: true,
  groupTimeoutMs: true,
  seed: true,
  onUnexpectedCall: true,
  onProgress: true,
  signal: true,
} satisfies OptionNames<RunGroupsOptions<z.ZodType, unknown>>;

export interface GroupsResult<Scenario> {
  /** In the order of the scenarios, whichever finished first. */
  groups: RolloutGroup<Scenario>[];
  /** Of all attempts of all groups. */
  counts: RolloutCounts;
  /** Sampled tokens of all rollouts. */
  sampledTokens: number;
  /** Wall-clock milliseconds. */
  durationMs: number;
}

/**
 * Runs `rolloutsPerGroup` rollouts of each scenario. Each ends completed, failed or cancelled; none makes the call
 * throw.
 * @throws RolloutOptionError, ScenarioError before any rollout begins.
 */
export async function runGroups<Schema extends z.ZodType, Outcome>(
  options: RunGroupsOptions<Schema, Outcome>,
): Promise<GroupsResult<z.output<Schema>>> {
  checkOptionNames('runGroups()', options, runGroupsNames, limitWords);
  const missing = missingEssential(options);
  if (missing) throw new RolloutOptionError(missing.option, missing.value, missing.remedy);
  const { environment, scenarios, rolloutsPerGroup, model, executor, onProgress, signal } = options;
  const { groupStrategy = defaultGroupStrategy, timeoutMs = 600_000, seed = 0 } = options;
  const { rewardTimeoutMs = timeoutMs, groupTimeoutMs = Number.POSITIVE_INFINITY } = options;
  const { onUnexpectedCall = 'error', concurrency } = options;
  wholeNumber('rolloutsPerGroup', rolloutsPerGroup, 1);
  milliseconds('timeoutMs', timeoutMs);
  milliseconds('rewardTimeoutMs', rewardTimeoutMs);
  milliseconds('groupTimeoutMs', groupTimeoutMs);
  neededRollouts(groupStrategy, rolloutsPerGroup);
  if (executor && concurrency !== undefined)
    throw new RolloutOptionError(
      'concurrency',
      concurrency,
      'An executor is given too, and it says how many rollouts run at a time. Give one of the two.',
    );
  const parsed = await parseScenarios(environment, scenarios);
  const begun = performance.now();
  const running = executor ?? inProcess(concurrency === undefined ? {} : { concurrency });
  const total = parsed.length * rolloutsPerGroup;
  let done = 0;

  const groups = await Promise.all(
    parsed.map((scenario, group) =>
      runGroup({
        environment,
        scenario,
        rolloutsPerGroup,
        model,
        group,
        seed,
        executor: running,
        strategy: groupStrategy,
        timeoutMs,
        rewardTimeoutMs,
        groupTimeoutMs,
        onUnexpectedCall,
        onRollout: (_, { isLast }) => isLast && onProgress?.({ done: ++done, total }),
        signal,
      }),
    ),
  );
  const rollouts = groups.flatMap((group) => group.rollouts);
  return {
    groups,
    counts: countRollouts(rollouts),
    sampledTokens: rollouts.reduce((sum, { trajectory }) => sum + trajectory.sampledTokens, 0),
    durationMs: performance.now() - begun,
  };
}
