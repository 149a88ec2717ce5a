import type { z } from 'zod';
import { inProcess, RolloutGroup, type RunGroupsOptions, runGroup, runGroups } from '../rollout/index.ts';
import type { EvaluationDirectory } from './evaluation-directory.ts';

/** Runs the groups that the folder does not have yet, and keeps each there as it ends. In order of the scenarios. */
export async function gatherGroups<Schema extends z.ZodType, Outcome>(
  options: Omit<RunGroupsOptions<Schema, Outcome>, 'scenarios'>,
  scenarios: readonly z.output<Schema>[],
  kept: EvaluationDirectory | null,
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
  let done = (kept?.finished.size ?? 0) * rolloutsPerGroup;
  if (done > 0) onProgress?.({ done, total });

  const gather = async (scenario: z.output<Schema>, index: number) => {
    const finished = kept?.finished.get(index);
    if (finished) return new RolloutGroup<z.output<Schema>>({ index, scenario, rollouts: finished.rollouts });
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
    // What did not complete after a stop may be its doing: such a group is run again.
    const wasStopped = signal?.aborted && group.rollouts.some(({ status }) => status !== 'completed');
    if (kept && !wasStopped) await kept.append(group);
    return group;
  };
  const gathered = scenarios.map(gather);
  try {
    return await Promise.all(gathered);
  } catch (error) {
    failed.abort(error);
    await Promise.allSettled(gathered);
    throw error;
  }
}
