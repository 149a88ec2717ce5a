import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, isRequestError } from '../client/index.ts';
import { type ModelHandle, requireModelId } from '../model/index.ts';
import { maxTimerMs } from '../util/deadline.ts';
import type { OptionNames } from '../util/option-names.ts';
import { invalidRunOption } from './errors.ts';

/** What to do if it is unknown whether the service has received a training job. */
export interface LostJobOptions {
  /**
   * How long to wait for the job's checkpoint, in milliseconds. It must cover the queue and the job: a slower job looks
   * like one that the service never received.
   *
   * @default 600_000 (10 minutes)
   * @example 60_000
   */
  waitMs?: number;
  /**
   * What to do if no checkpoint appears. `stop`: throw `training_job_unknown`, so that a person can look. `ask_again`:
   * request the job again; if the first one was only slow, the model trains twice. `take_as_done`: continue from the
   * newest checkpoint; if there was no job, the step is not trained.
   *
   * @default 'stop'
   * @example 'ask_again'
   */
  decision?: 'stop' | 'ask_again' | 'take_as_done';
}

export const lostJobNames = { waitMs: 'number', decision: true } satisfies OptionNames<LostJobOptions>;

export const defaultLostJob = { waitMs: 600_000, decision: 'stop' } as const satisfies LostJobOptions;

/** @throws OptionError */
export function checkLostJob({ waitMs, decision = defaultLostJob.decision }: LostJobOptions = {}): void {
  if (waitMs !== undefined && !(waitMs >= 0 && waitMs <= maxTimerMs))
    throw invalidRunOption('lostJob.waitMs', waitMs, `Pass milliseconds from 0 to ${maxTimerMs} (24 days).`);
  if (!['stop', 'ask_again', 'take_as_done'].includes(decision))
    throw invalidRunOption('lostJob.decision', decision, 'Pass "stop", "ask_again" or "take_as_done".');
}

/** Whether this service supports `Idempotency-Key`, so that a POST can be repeated safely. */
export const knowsKeys = (client: Client) => client.options.dialect !== 'deployed';

/** What was found of a job. */
export type JobTrace =
  /** One new checkpoint, created by the job. */
  | { type: 'checkpoint'; step: number }
  /** More new checkpoints than one job makes. */
  | { type: 'several'; steps: number[] }
  /** The service knows the job after all. */
  | { type: 'job' }
  | { type: 'nothing' };

interface PollOptions {
  model: ModelHandle;
  /** Step of the newest checkpoint before the job was requested. */
  from: number;
  /** Id of the job, if the service returned one. */
  jobId: string | undefined;
  waitMs: number;
  signal: AbortSignal | undefined;
}

const minPauseMs = 100;
const maxPauseMs = 5_000;

/** Polls for traces of a job (checkpoints, the job itself) until it finds one or `waitMs` is over. */
export async function pollForJob(options: PollOptions): Promise<JobTrace> {
  const { waitMs, signal } = options;
  const startedAt = performance.now();
  for (let pauseMs = minPauseMs; ; pauseMs = Math.min(2 * pauseMs, maxPauseMs)) {
    const trace = await findTrace(options);
    const leftMs = startedAt + waitMs - performance.now();
    if (trace.type !== 'nothing' || leftMs <= 0) return trace;
    await sleep(Math.min(pauseMs, leftMs), undefined, signal ? { signal } : {}).catch((error) => {
      throw signal?.aborted ? signal.reason : error;
    });
  }
}

/** Steps of the checkpoints after `from`, newest first. At most two, because one job makes only one. */
export async function checkpointsAfter(
  model: ModelHandle,
  from: number,
  signal: AbortSignal | undefined,
): Promise<number[]> {
  const options = { order: 'desc', limit: 2, signal } as const;
  const { data } = await model.client.models.checkpoints.list(requireModelId(model), options);
  return data.map(({ step }) => step).filter((step) => step > from);
}

async function findTrace({ model, from, jobId, signal }: PollOptions): Promise<JobTrace> {
  const steps = await checkpointsAfter(model, from, signal);
  const [step] = steps;
  if (step !== undefined) return steps.length > 1 ? { type: 'several', steps } : { type: 'checkpoint', step };
  if (jobId === undefined || !(await findJob(model.client, jobId, signal))) return { type: 'nothing' };
  return { type: 'job' };
}

/** Step of the checkpoint that a job created, if the service reports it. */
export async function stepOf(
  client: Client,
  jobId: string | undefined,
  signal: AbortSignal | undefined,
): Promise<number | undefined> {
  const job = jobId === undefined ? undefined : await findJob(client, jobId, signal);
  return job?.step ?? undefined;
}

/** The job as the service reports it; undefined if the service does not know it. */
async function findJob(client: Client, jobId: string, signal: AbortSignal | undefined) {
  try {
    return await client.trainingJobs.get(jobId, { signal });
  } catch (error) {
    // 405 and 501: the service does not have this route, so it cannot know the job either.
    if (isRequestError(error) && [404, 405, 501].includes(error.status ?? 0)) return undefined;
    throw error;
  }
}
