import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, RequestError } from '../client/index.ts';
import { type ModelHandle, requireModelId } from '../model/index.ts';
import { longestTimerMs } from '../util/deadline.ts';
import type { OptionNames } from '../util/option-names.ts';
import { invalidRunOption } from './errors.ts';

/** What is to be done about a training job of which it is not known whether the service has it. */
export interface LostJobOptions {
  /**
   * How long its checkpoint is waited for, in milliseconds. It has to cover the queue and the job: one that is slower
   * looks like one that never was. Default 600,000 (10 minutes).
   */
  waitMs?: number;
  /**
   * What is done when the checkpoint has not come. `stop`: `training_job_unknown` is thrown, for a person to look (the
   * default). `ask_again`: ask for the job once more; where the first was only slow, the model trains twice.
   * `take_as_done`: go on from the checkpoint that is there; where there was no job, that step has not trained.
   */
  decision?: 'stop' | 'ask_again' | 'take_as_done';
}

export const lostJobNames = { waitMs: true, decision: true } satisfies OptionNames<LostJobOptions>;

export const defaultLostJob = { waitMs: 600_000, decision: 'stop' } as const satisfies LostJobOptions;

/** @throws OptionError */
export function checkLostJob({ waitMs, decision = defaultLostJob.decision }: LostJobOptions = {}): void {
  if (waitMs !== undefined && !(waitMs >= 0 && waitMs <= longestTimerMs))
    throw invalidRunOption(
      'lostJob.waitMs',
      waitMs,
      `Give milliseconds from 0 up to ${longestTimerMs} (24 days).`,
    );
  if (!['stop', 'ask_again', 'take_as_done'].includes(decision))
    throw invalidRunOption('lostJob.decision', decision, 'Give "stop", "ask_again" or "take_as_done".');
}

/** Whether a repeat of a POST with its `Idempotency-Key` is harmless on this service. */
export const knowsKeys = (client: Client) => client.options.dialect !== 'deployed';

/** What there was to see of a job. */
export type Sighting =
  /** One new checkpoint: the job's. */
  | { type: 'checkpoint'; step: number }
  /** More new checkpoints than one job makes. */
  | { type: 'several'; steps: number[] }
  /** The service knows the job again. */
  | { type: 'job' }
  | { type: 'nothing' };

export interface LookForJobOptions {
  model: ModelHandle;
  /** Step of the newest checkpoint before the job was asked for. */
  from: number;
  /** Where an id was given once. */
  jobId: string | undefined;
  waitMs: number;
  signal: AbortSignal | undefined;
}

const shortestPauseMs = 100;
const longestPauseMs = 5_000;

/** Looks for a job by what it leaves, until there is something to see or the time is up. */
export async function lookForJob(options: LookForJobOptions): Promise<Sighting> {
  const { waitMs, signal } = options;
  const begun = performance.now();
  for (let pauseMs = shortestPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    const sighting = await look(options);
    const leftMs = begun + waitMs - performance.now();
    if (sighting.type !== 'nothing' || leftMs <= 0) return sighting;
    await sleep(Math.min(pauseMs, leftMs), undefined, signal ? { signal } : {}).catch((error) => {
      throw signal?.aborted ? signal.reason : error;
    });
  }
}

/** Steps of the checkpoints after `from`, newest first, at most two of them: a job makes one. */
export async function checkpointsAfter(
  model: ModelHandle,
  from: number,
  signal: AbortSignal | undefined,
): Promise<number[]> {
  const options = { order: 'desc', limit: 2, signal } as const;
  const { data } = await model.client.models.checkpoints.list(requireModelId(model), options);
  return data.map(({ step }) => step).filter((step) => step > from);
}

async function look({ model, from, jobId, signal }: LookForJobOptions): Promise<Sighting> {
  const steps = await checkpointsAfter(model, from, signal);
  const [step] = steps;
  if (step !== undefined) return steps.length > 1 ? { type: 'several', steps } : { type: 'checkpoint', step };
  if (jobId === undefined || !(await findJob(model.client, jobId, signal))) return { type: 'nothing' };
  return { type: 'job' };
}

/** Step of the checkpoint that a job made, where the service says it. */
export async function stepOf(
  client: Client,
  jobId: string | undefined,
  signal: AbortSignal | undefined,
): Promise<number | undefined> {
  const job = jobId === undefined ? undefined : await findJob(client, jobId, signal);
  return job?.step ?? undefined;
}

/** What the service says of a job; undefined where it does not know it. */
export async function findJob(client: Client, jobId: string, signal: AbortSignal | undefined) {
  try {
    return await client.trainingJobs.get(jobId, { signal });
  } catch (error) {
    // 405 and 501: a service that has no such path cannot know it either.
    if (error instanceof RequestError && [404, 405, 501].includes(error.status ?? 0)) return undefined;
    throw error;
  }
}
