import { type Client, RequestError } from '../client/index.ts';
import { type Untrained, untrainedSchema } from '../contract/index.ts';
import { maxTimerMs } from '../util/deadline.ts';
import { invalidOption } from '../util/option-error.ts';
import { type OptionNames, requireOptions } from '../util/option-names.ts';
import { warn } from '../util/warning.ts';
import { jobFailed, TrainingError } from './errors.ts';
import { stopGraceMs, withGrace } from './grace.ts';

export interface JobProgress {
  status: 'running' | 'ended';
  /** Gradient steps so far. `total` is their expected number, or null if the service has not sent it. */
  gradientSteps: number;
  total: number | null;
  /** Metrics of the newest gradient step; empty before the first. */
  metrics: Record<string, number>;
}

export interface FollowJobOptions {
  client: Client;
  jobId: string;
  /** Deadline of the job, including its time in the queue, in milliseconds. Default 3,600,000 (1 hour). */
  timeoutMs?: number;
  onProgress?: (progress: JobProgress) => void;
  /** Cancels the job on the service; `followJob` then throws the signal's reason. */
  signal?: AbortSignal;
}

const followNames = {
  client: 'client',
  jobId: 'text',
  timeoutMs: 'number',
  onProgress: 'function',
  signal: 'signal',
} satisfies OptionNames<FollowJobOptions>;

/** The outcome of a job that did not fail. */
export interface JobOutcome {
  /** The metrics of each gradient step, in order. */
  gradientSteps: Record<string, number>[];
  /** Why the job took no gradient step and made no checkpoint, if the service says so. */
  untrained?: Untrained | undefined;
}

export const defaultJobTimeoutMs = 3_600_000;

/**
 * Waits for the end of a training job.
 * @throws OptionError; TrainingError if the job fails or exceeds the deadline.
 */
export async function followJob(options: FollowJobOptions): Promise<JobOutcome> {
  requireOptions('followJob()', options, followNames, ['client', 'jobId']);
  const { client, jobId, timeoutMs = defaultJobTimeoutMs, onProgress, signal } = options;
  if (timeoutMs < 0)
    throw invalidOption('invalid_run_option', 'timeoutMs', timeoutMs, 'Pass milliseconds of at least 0.');
  const deadline = AbortSignal.timeout(Math.min(timeoutMs, maxTimerMs));
  const either = signal ? AbortSignal.any([signal, deadline]) : deadline;
  const gradientSteps: Record<string, number>[] = [];
  let total: number | null = null;
  const report = (status: JobProgress['status']) =>
    onProgress?.({ status, gradientSteps: gradientSteps.length, total, metrics: gradientSteps.at(-1) ?? {} });
  try {
    for await (const event of client.trainingJobs.follow(jobId, { signal: either })) {
      if (event.type === 'training_failed')
        throw jobFailed(jobId, `failed: ${event.data.error_message}`, {
          isProcessLost: event.data.reason === 'process_lost',
        });
      if (event.type === 'training_started') total = event.data.num_sequences;
      if (event.type === 'gradient_step') gradientSteps.push(event.data);
      report(event.type === 'training_ended' ? 'ended' : 'running');
      if (event.type === 'training_ended')
        return { gradientSteps, untrained: untrainedSchema.safeParse(event.data.untrained).data };
    }
    throw jobFailed(jobId, 'stopped sending events before it ended');
  } catch (error) {
    if (!either.aborted) throw error;
    await cancelJob(client, jobId, signal?.aborted ? signal : deadline);
    if (signal?.aborted) throw signal.reason;
    throw new TrainingError(
      'training_job_timeout',
      `Training job ${jobId} did not end within ${timeoutMs} ms and was cancelled. Raise the deadline, or check the ` +
        'job and the jobs queued before it on the service.',
      { jobId },
    );
  }
}

/** Only warns on failure: an error here must not hide why the run stops. */
async function cancelJob(client: Client, jobId: string, ended: AbortSignal): Promise<void> {
  try {
    await withGrace(ended, stopGraceMs, (graceSignal) =>
      client.trainingJobs.cancel(jobId, { signal: graceSignal }),
    );
  } catch (error) {
    // The job ended before it could be cancelled.
    if (RequestError.isInstance(error) && error.status === 409) return;
    warn('martingale_job_not_cancelled', `Training job ${jobId} could not be cancelled: ${String(error)}`);
  }
}

/** Mean of each metric over the gradient steps, or trajectories, that have it. */
export function meanMetrics(
  all: readonly Readonly<Record<string, number | boolean>>[],
): Record<string, number> {
  const sums = new Map<string, { sum: number; count: number }>();
  for (const metrics of all) {
    for (const [name, value] of Object.entries(metrics)) {
      const { sum, count } = sums.get(name) ?? { sum: 0, count: 0 };
      sums.set(name, { sum: sum + Number(value), count: count + 1 });
    }
  }
  return Object.fromEntries([...sums].map(([name, { sum, count }]) => [name, sum / count]));
}
