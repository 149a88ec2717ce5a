import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { isRequestError } from '../client/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { RolloutGroup } from '../rollout/index.ts';
import { hasCode, messageOf } from '../util/error.ts';
import { byteLines } from '../util/json-lines.ts';
import { warn } from '../util/warning.ts';
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

/** What the job of a step found of a group's tokens; null if it is not recorded. */
export async function readGroupTokens(run: string, step: number, group: number): Promise<GroupTokens | null> {
  const prefix = Buffer.from(`{"group":${group},`);
  try {
    for await (const { bytes } of byteLines(createReadStream(join(run, tokensFile(step)))))
      if (bytes.subarray(0, prefix.length).equals(prefix)) return JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error;
  }
  return null;
}
