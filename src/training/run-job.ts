import { randomUUID } from 'node:crypto';
import type { Span } from '@opentelemetry/api';
import { isRequestError, mayHaveActed } from '../client/index.ts';
import type { ModelHandle } from '../model/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { warn } from '../util/warning.ts';
import { TrainingError } from './errors.ts';
import { followJob, type JobOutcome, type JobProgress } from './follow-job.ts';
import { stopGraceMs, withGrace } from './grace.ts';
import {
  checkpointsAfter,
  defaultLostJob,
  type JobTrace,
  knowsKeys,
  type LostJobOptions,
  pollForJob,
  stepOf,
} from './lost-job.ts';
import type { JobState } from './run-state.ts';

/**
 * The outcome of a job, and the step of the newest checkpoint after it. An untrained job leaves the checkpoint it
 * started from. `gradientSteps` is empty if the metrics are unknown.
 */
export type JobEnd = NonNullable<JobState['outcome']>;

export interface RunJobOptions {
  kind: 'rl' | 'sft';
  /** Pinned to the checkpoint that the job starts from. */
  model: ModelHandle;
  /** Names the job in errors. */
  name: string;
  /** The end of the error for a job whose outcome is unknown: what a person can check and do. */
  advice: (mayRequestAgain: boolean) => string;
  /** State of the job from an interrupted run. */
  before?: JobState | undefined;
  /** Stores the state durably. Default: the state is not stored. */
  save?: (state: JobState) => Promise<void>;
  /** Creates the job on the service. */
  create: (idempotencyKey: string, signal: AbortSignal) => Promise<{ jobId: string }>;
  /** Idempotency key. Default: a new one for each created job. */
  idempotencyKey?: string | undefined;
  onProgress: (
    progress: Omit<JobProgress, 'status'> & { status: 'submitted' | JobProgress['status'] },
  ) => void;
  timeoutMs: number | undefined;
  lostJob: LostJobOptions | undefined;
  signal: AbortSignal | undefined;
}

/** The next action for a job. */
type Next = { create: JobState } | { follow: JobState; jobId: string } | { find: JobState } | { end: JobEnd };

/** Maximum number of requests, in case a service loses every answer. */
const maxCreated = 3;

/** How often a job is requested again that failed because the service's process ended too often. */
const maxRepeated = 2;

/**
 * Runs one training job on the service and waits for its checkpoint. The state is stored before and after each call. If
 * an answer is lost and the service supports idempotency keys, the job is requested again with the same key. On other
 * services the model's checkpoints are checked first: see `LostJobOptions`.
 * @throws TrainingError, errors of the client, the signal's reason.
 */
export function runJob(options: RunJobOptions): Promise<JobEnd> {
  const attributes = { [attribute.jobKind]: options.kind, [attribute.modelId]: options.model.id };
  return withSpan(spanName.job, attributes, async (span) => {
    const job = new Job(options, span);
    let next = job.begin();
    for (;;) {
      if ('end' in next) return next.end;
      if ('create' in next) next = await job.create(next.create);
      else if ('follow' in next) next = await job.follow(next.follow, next.jobId);
      else next = await job.find(next.find);
    }
  });
}

class Job {
  readonly #options: RunJobOptions;
  readonly #span: Span;
  readonly #hasKeys: boolean;
  #created = 0;
  #repeated = 0;

  constructor(options: RunJobOptions, span: Span) {
    this.#options = options;
    this.#span = span;
    this.#hasKeys = knowsKeys(options.model.client);
  }

  begin(): Next {
    const { before } = this.#options;
    if (!before) return { create: this.#newJob() };
    if (before.outcome) return { end: before.outcome };
    if (before.jobId !== undefined) return { follow: before, jobId: before.jobId };
    if (this.#hasKeys || before.isRefused) return { create: before };
    const why = before.lost?.why ?? 'The run ended before the service had answered.';
    return { find: { ...before, lost: { ...before.lost, why } } };
  }

  async create(state: JobState): Promise<Next> {
    const { signal, create, onProgress } = this.#options;
    this.#created++;
    const unanswered = { ...state, isRefused: undefined };
    await this.#save(unanswered);
    let jobId: string;
    try {
      // Not interrupted at once: without its id, a created job could not be cancelled.
      ({ jobId } = await withGrace(signal, stopGraceMs, (graceSignal) =>
        create(state.idempotencyKey, graceSignal),
      ));
    } catch (error) {
      if (!this.#hasKeys && mayHaveActed(error))
        return { find: { ...unanswered, lost: { why: error.message } } };
      if (isRequestError(error) && !mayHaveActed(error)) await this.#save({ ...state, isRefused: true });
      throw error;
    }
    // The key returned the job that the service has said it does not know.
    if (jobId === state.lost?.jobId) return { find: unanswered };
    const known = { ...unanswered, jobId, lost: undefined };
    await this.#save(known);
    onProgress({ status: 'submitted', gradientSteps: 0, total: null, metrics: {} });
    return { follow: known, jobId };
  }

  async follow(state: JobState, jobId: string): Promise<Next> {
    const { model, signal, timeoutMs, onProgress } = this.#options;
    this.#span.setAttribute(attribute.jobId, jobId);
    try {
      const outcome = await followJob({ client: model.client, jobId, onProgress, timeoutMs, signal });
      return await this.#end(state, outcome);
    } catch (error) {
      const isOld = this.#created === 0;
      // It created no checkpoint, and the earlier run that created it has reported the reason.
      if (isOld && TrainingError.isInstance(error) && error.code === 'training_job_failed')
        return { create: this.#newJob() };
      if (error instanceof TrainingError && error.isProcessLost && this.#mayRepeat()) {
        this.#repeated++;
        const { name } = this.#options;
        warn(
          'martingale_job_unknown',
          `${name}: ${error.message} It is requested again, ${this.#repeated} of ${maxRepeated} times.`,
        );
        return { create: this.#newJob() };
      }
      if (!isRequestError(error, 'not_found')) throw error;
      const lost = { ...state, jobId: undefined, lost: { why: error.message, jobId } };
      if (!this.#hasKeys || this.#created >= maxCreated) return { find: lost };
      // The job may have created a checkpoint before it was forgotten. If not, request it again with the same key.
      const [step] = await checkpointsAfter(model, state.from, signal);
      return step === undefined ? { create: lost } : this.#end(lost);
    }
  }

  /** Finds out, as far as possible, whether the service received the job, and applies `lostJob` if it did not. */
  async find(state: JobState): Promise<Next> {
    const { model, name, advice, signal, lostJob = {} } = this.#options;
    const { waitMs = defaultLostJob.waitMs, decision = defaultLostJob.decision } = lostJob;
    const { why = '', jobId, isTold } = state.lost ?? {};
    await this.#save(state);
    // An earlier run has reported the lost job, and a person has now decided what to do.
    const isDecided = isTold === true && decision !== 'stop';
    if (!isDecided)
      warn('martingale_job_unknown', `${name}: ${why} Waiting up to ${waitMs} ms for its checkpoint.`);
    const waitedMs = isDecided ? 0 : waitMs;
    const trace = await pollForJob({ model, jobId, from: state.from, waitMs: waitedMs, signal });
    if (trace.type === 'checkpoint') return this.#end(state);
    if (trace.type === 'job' && jobId !== undefined && this.#created < maxCreated) {
      this.#created++;
      const known = { ...state, jobId, lost: undefined };
      await this.#save(known);
      return { follow: known, jobId };
    }
    if (decision === 'take_as_done') return this.#end(state);
    if (decision === 'ask_again' && trace.type === 'nothing' && this.#created < maxCreated) {
      warn('martingale_job_unknown', `${name}: no checkpoint appeared, so it is requested again.`);
      return { create: this.#newJob() };
    }
    await this.#save({ ...state, lost: { why, jobId, isTold: true } });
    throw new TrainingError(
      'training_job_unknown',
      `${name}: the service may or may not have received it, so it is not requested again. ${why} The model is ` +
        `${model.name}; ${describe(trace, state.from, waitMs)}. ${advice(trace.type === 'nothing')}`,
    );
  }

  /** Finishes an ended job. Gets a grace period, so that a run stopped at this point still has its new checkpoint. */
  #end(
    state: JobState,
    { gradientSteps, untrained }: JobOutcome = { gradientSteps: [] },
  ): Promise<{ end: JobEnd }> {
    const { model, name, signal } = this.#options;
    return withGrace(signal, stopGraceMs, async (graceSignal) => {
      const [own, after] = await Promise.all([
        stepOf(model.client, state.jobId, graceSignal),
        checkpointsAfter(model, state.from, graceSignal),
      ]);
      const isUntrained = own !== undefined && own <= state.from;
      const steps = isUntrained ? [] : after;
      if (steps.length > 1)
        warn(
          'martingale_job_unknown',
          `${name}: the model has more than one checkpoint after step ${state.from}. Something else trains it too.`,
        );
      if (untrained) warn('martingale_job_untrained', `${name} took no gradient step. ${untrained.message}`);
      const outcome = { gradientSteps, untrained, step: own ?? steps[0] ?? state.from };
      await this.#save({ ...state, outcome });
      return { end: outcome };
    });
  }

  /** With a key that was given, the service would answer with the same job. */
  #mayRepeat(): boolean {
    return this.#repeated < maxRepeated && this.#options.idempotencyKey === undefined;
  }

  #newJob(): JobState {
    const { model, idempotencyKey = randomUUID() } = this.#options;
    return { idempotencyKey, from: model.step ?? 0 };
  }

  async #save(state: JobState): Promise<void> {
    await this.#options.save?.(state);
  }
}

/** Advice for a person if the outcome of a run's job is unknown. */
export const resumeAdvice = (mayRequestAgain: boolean) =>
  'Check the model on the service, then continue with `resume`: without `lostJob` if the checkpoint is there now; ' +
  (mayRequestAgain ? "with `lostJob: { decision: 'ask_again' }` if there is no such job; " : '') +
  "with `lostJob: { decision: 'take_as_done' }` to continue from the newest checkpoint.";

function describe(trace: JobTrace, from: number, waitMs: number): string {
  if (trace.type === 'several')
    return `it has the checkpoints ${trace.steps.join(' and ')} after step ${from}, but a job makes only one`;
  if (trace.type === 'job') return 'the service knows the job but not its events';
  return `no checkpoint after step ${from} appeared within ${waitMs} ms`;
}
