import type { z } from 'zod';
import { inProcess, RolloutGroup, type RunGroupsOptions, runGroup, runGroups } from '../rollout/index.ts';
import type { EvaluationDirectory } from './evaluation-directory.ts';

interface Kept {
  /** Null where nothing is kept. */
  kept: EvaluationDirectory | null;
  /** Whether groups of the folder with a rollout that did not complete are run again. */
  rerunFailed: boolean;
  /** Called with each group as it ends, and with those that the folder has. */
  onGroup?: ((group: RolloutGroup) => void) | undefined;
}

const completedOf = ({ rollouts }: RolloutGroup) =>
  rollouts.filter(({ status }) => status === 'completed').length;

/**
 * Runs the groups that the folder does not have yet, or not whole, and keeps each there as it ends. In order of the
 * scenarios.
 */
export async function gatherGroups<Schema extends z.ZodType, Outcome>(
  options: Omit<RunGroupsOptions<Schema, Outcome>, 'scenarios'>,
  scenarios: readonly z.output<Schema>[],
  { kept, rerunFailed, onGroup }: Kept,
): Promise<RolloutGroup<z.output<Schema>>[]> {
  // Without scenarios it only checks the options.
  await runGroups({ ...options, scenarios: [] });
  const { environment, model, rolloutsPerGroup, concurrency, groupStrategy, onProgress, signal } = options;
  const { timeoutMs = 600_000, seed = 0, onUnexpectedCall = 'error' } = options;
  const { rewardTimeoutMs = timeoutMs, groupTimeoutMs = Number.POSITIVE_INFINITY } = options;
  const executor = options.executor ?? inProcess(concurrency === undefined ? {} : { concurrency });
  const failed = new AbortController();
  const stopping = signal ? AbortSignal.any([signal, failed.signal]) : failed.signal;
  const total = scenarios.length * rolloutsPerGroup;
  const isAsItStays = (group: RolloutGroup) => !rerunFailed || completedOf(group) >= rolloutsPerGroup;
  let done = [...(kept?.finished.values() ?? [])].filter(isAsItStays).length * rolloutsPerGroup;
  if (done > 0) onProgress?.({ done, total });

  const gather = async (scenario: z.output<Schema>, index: number) => {
    const finished = kept?.finished.get(index);
    const asFinished = ({ rollouts }: RolloutGroup) =>
      new RolloutGroup<z.output<Schema>>({ index, scenario, rollouts });
    if (finished && isAsItStays(finished)) return asFinished(finished);
    const group = await runGroup({
      environment,
      scenario,
      rolloutsPerGroup,
      model,
      group: index,
      seed,
      executor,
      strategy: groupStrategy,
      timeoutMs,
      rewardTimeoutMs,
      groupTimeoutMs,
      onUnexpectedCall,
      onRollout: (_, { isLast }) => isLast && onProgress?.({ done: ++done, total }),
      signal: stopping,
    });
    // Whatever failed it the first time may do so again, and worse.
    if (finished && completedOf(group) <= completedOf(finished)) return asFinished(finished);
    // What did not complete after a stop may be its doing: such a group is run again.
    const wasStopped = signal?.aborted && group.rollouts.some(({ status }) => status !== 'completed');
    if (kept && !wasStopped) await kept.append(group);
    return group;
  };
  const gathered = scenarios.map(async (scenario, index) => {
    const group = await gather(scenario, index);
    onGroup?.(group);
    return group;
  });
  try {
    return await Promise.all(gathered);
  } catch (error) {
    failed.abort(error);
    await Promise.allSettled(gathered);
    throw error;
  }
}
