import { join } from 'node:path';
import { isRequestError } from '../client/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { RolloutGroup } from '../rollout/index.ts';
import { hasCode, messageOf } from '../util/error.ts';
import { warn } from '../util/warning.ts';
import { GroupLines } from './group-lines.ts';
import { knowsKeys } from './lost-job.ts';
import type { RunDirectory } from './run-directory.ts';
import { tokensFile } from './run-files.ts';
import type { GroupTokens } from './run-state.ts';

/** Most of the time that a step waits for what its job found of the tokens. */
const maxWaitMs = 10_000;

/**
 * Writes what a job found of its tokens into the run directory, if the service tells it. `groups`: those that the job
 * got, in order. A service that fails to tell costs the run nothing but these figures: a warning says so.
 */
export async function recordTokens(
  { directory, signal }: { directory: RunDirectory; signal: AbortSignal },
  {
    model,
    step,
    jobId,
    groups,
  }: { model: ModelHandle; step: number; jobId: string; groups: readonly RolloutGroup[] },
): Promise<void> {
  // Services of other makers have no such route.
  if (!knowsKeys(model.client)) return;
  const found = new Map<number, GroupTokens>();
  try {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(maxWaitMs)]);
    const pages = model.client.trainingJobs.tokens(jobId, { limit: 50, signal: limited });
    for await (const { group: at, trajectory, choices } of pages) {
      const group = groups[at]?.index;
      if (group === undefined) continue;
      const known = found.get(group) ?? { group, trajectories: [] };
      found.set(group, known);
      known.trajectories.push({ trajectory, choices });
    }
  } catch (error) {
    if (signal.aborted || isRequestError(error, 'not_found')) return;
    if (isRequestError(error) && (error.status === 405 || error.status === 501)) return;
    const why = messageOf(error);
    warn(
      'martingale_tokens_unknown',
      `Step ${step}: what the job found of its tokens is not recorded. ${why}`,
    );
    return;
  }
  if (found.size > 0) await directory.writeTokens(step, found.values());
}

/** Reads what the job of a step found of the tokens of a group; null if it is not recorded. */
export type ReadGroupTokens = (group: number) => Promise<GroupTokens | null>;

/** Looks once through the file of a step, so that the tokens of many groups can be read. */
export async function openGroupTokens(run: string, step: number): Promise<ReadGroupTokens> {
  const lines = await GroupLines.find(join(run, tokensFile(step))).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return null;
    throw error;
  });
  return async (group) => (lines?.has(group) ? JSON.parse((await lines.read(group)).toString('utf8')) : null);
}
