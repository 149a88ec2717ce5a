import { randomUUID } from 'node:crypto';
import type { Span } from '@opentelemetry/api';
import { mayHaveActed, NotFoundError, RequestError } from '../client/index.ts';
import type { ModelHandle } from '../model/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { TrainingError } from './errors.ts';
import { followJob, type JobOutcome, type JobProgress } from './follow-job.ts';
import { stopGraceMs, withGrace } from './grace.ts';
import {
  checkpointsAfter,
  defaultLostJob,
  knowsKeys,
  type LostJobOptions,
  lookForJob,
  type Sighting,
  stepOf,
} from './lost-job.ts';

/**
 * The outcome of a job, and the step of the checkpoint after it: the one that it trained on from, if it is untrained.
 * Its gradient steps are empty where nothing is known of them.
 */
export interface JobEnd extends JobOutcome {
  step: number;
}

/** What is known of a job. */
export interface JobState {
  idempotencyKey: string;
  /** Step of the checkpoint that it trains on from. */
  from: number;
  /** Absent until the service has answered. */
  jobId?: string | undefined;
  /** The service has refused the job, or was not reached: it has no such job. */
  isRefused?: boolean | undefined;
  /** Present while it is not known whether the service has the job. */
  lost?: { why: string; jobId?: string | undefined; isTold?: boolean | undefined } | undefined;
  /** Absent until the job has ended. */
  outcome?: JobEnd | undefined;
}

export interface RunJobOptions {
  kind: 'rl' | 'sft';
  /** Pinned to the checkpoint that the job trains on from. */
  model: ModelHandle;
  /** Names the job in errors. */
  name: string;
  /** What a person can do, who has looked, where the outcome of the job is not known: sentences. */
  goOn: (mayAskAgain: boolean) => string;
  /** What an interrupted run knew of it. */
  before?: JobState | undefined;
  /** Keeps what is known beyond the end of the process. Default: nothing is kept. */
  keep?: (state: JobState) => Promise<void>;
  /** Creates the job on the service. */
  create: (idempotencyKey: string, signal: AbortSignal) => Promise<{ jobId: string }>;
  /** Key of the job. Default: a new one for each job that is created. */
  idempotencyKey?: string | undefined;
  onProgress: (
    progress: Omit<JobProgress, 'status'> & { status: 'submitted' | JobProgress['status'] },
  ) => void;
  timeoutMs: number | undefined;
  lostJob: LostJobOptions | undefined;
  signal: AbortSignal | undefined;
}

/** What to do next about a job. */
type Next = { create: JobState } | { follow: JobState; jobId: string } | { find: JobState } | { end: JobEnd };

/** A service that loses every answer would be asked forever. */
const mostCreated = 3;

/**
 * Has the service do one training job, and waits for its checkpoint. What is known is kept before and after each
 * call. Where a service knows idempotency keys, a job whose answer was lost is created again under the same key.
 * Elsewhere nothing is created twice before the model's checkpoints have been looked at: see `LostJobOptions`.
 * @throws TrainingError, what the client throws, the signal's reason.
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

  constructor(options: RunJobOptions, span: Span) {
    this.#options = options;
    this.#span = span;
    this.#hasKeys = knowsKeys(options.model.client);
  }

  begin(): Next {
    const { before } = this.#options;
    if (!before) return { create: this.#anew() };
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
    await this.#keep(unanswered);
    let jobId: string;
    try {
      // Not interrupted at once: a job that is created and not known could not be cancelled.
      ({ jobId } = await withGrace(signal, stopGraceMs, (patient) => create(state.idempotencyKey, patient)));
    } catch (error) {
      if (!this.#hasKeys && mayHaveActed(error))
        return { find: { ...unanswered, lost: { why: error.message } } };
      if (error instanceof RequestError && !mayHaveActed(error))
        await this.#keep({ ...state, isRefused: true });
      throw error;
    }
    // Under the same key the service gives the job that it says it does not have.
    if (jobId === state.lost?.jobId) return { find: unanswered };
    const known = { ...unanswered, jobId, lost: undefined };
    await this.#keep(known);
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
      // It made no checkpoint, and the run that created it has reported its reason.
      if (isOld && TrainingError.isInstance(error) && error.code === 'training_job_failed')
        return { create: this.#anew() };
      if (!(error instanceof NotFoundError)) throw error;
      const lost = { ...state, jobId: undefined, lost: { why: error.message, jobId } };
      if (!this.#hasKeys || this.#created >= mostCreated) return { find: lost };
      // Its checkpoint, if it made one, is there all the same. If not: the same key gives the same job, or another.
      const [step] = await checkpointsAfter(model, state.from, signal);
      return step === undefined ? { create: lost } : this.#end(lost);
    }
  }

  /** Finds out whether the service had the job, as far as that can be known, and decides what to do if not. */
  async find(state: JobState): Promise<Next> {
    const { model, name, goOn, signal, lostJob = {} } = this.#options;
    const { waitMs = defaultLostJob.waitMs, decision = defaultLostJob.decision } = lostJob;
    const { why = '', jobId, isTold } = state.lost ?? {};
    await this.#keep(state);
    // A person has been told, has looked, and has decided.
    const isDecided = isTold === true && decision !== 'stop';
    if (!isDecided) warn(`${name}: ${why} Its checkpoint is waited for, for ${waitMs} ms.`);
    const sighting = await lookForJob({
      model,
      jobId,
      from: state.from,
      waitMs: isDecided ? 0 : waitMs,
      signal,
    });
    if (sighting.type === 'checkpoint') return this.#end(state);
    if (sighting.type === 'job' && jobId !== undefined && this.#created < mostCreated) {
      this.#created++;
      const known = { ...state, jobId, lost: undefined };
      await this.#keep(known);
      return { follow: known, jobId };
    }
    if (decision === 'take_as_done') return this.#end(state);
    if (decision === 'ask_again' && sighting.type === 'nothing' && this.#created < mostCreated) {
      warn(`${name}: no checkpoint has come of it, so it is asked for again.`);
      return { create: this.#anew() };
    }
    await this.#keep({ ...state, lost: { why, jobId, isTold: true } });
    throw new TrainingError(
      'training_job_unknown',
      `${name}: it is not known whether the service has it, and it is not asked for twice. ${why} The model is ` +
        `${model.name}; ${describe(sighting, state.from, waitMs)}. ${goOn(sighting.type === 'nothing')}`,
    );
  }

  /** The job has ended. Short and not interrupted at once: a run that is stopped here has its new checkpoint. */
  #end(
    state: JobState,
    { gradientSteps, untrained }: JobOutcome = { gradientSteps: [] },
  ): Promise<{ end: JobEnd }> {
    const { model, name, signal } = this.#options;
    return withGrace(signal, stopGraceMs, async (patient) => {
      const own = await stepOf(model.client, state.jobId, patient);
      const isUntrained = own !== undefined && own <= state.from;
      const steps = isUntrained ? [] : await checkpointsAfter(model, state.from, patient);
      if (steps.length > 1)
        warn(
          `${name}: the model has more than one checkpoint after step ${state.from}. Something else trains it too.`,
        );
      if (untrained)
        process.emitWarning(`${name} took no gradient step. ${untrained.message}`, {
          code: 'martingale_job_untrained',
        });
      const outcome = { gradientSteps, untrained, step: own ?? steps[0] ?? state.from };
      await this.#keep({ ...state, outcome });
      return { end: outcome };
    });
  }

  #anew(): JobState {
    const { model, idempotencyKey = randomUUID() } = this.#options;
    return { idempotencyKey, from: model.step ?? 0 };
  }

  async #keep(state: JobState): Promise<void> {
    await this.#options.keep?.(state);
  }
}

function describe(sighting: Sighting, from: number, waitMs: number): string {
  if (sighting.type === 'several')
    return `it has the checkpoints ${sighting.steps.join(' and ')} after step ${from}, and a job makes one`;
  if (sighting.type === 'job') return 'the service knows the job and not its events';
  return `it has shown no checkpoint after step ${from} within ${waitMs} ms`;
}

function warn(message: string): void {
  process.emitWarning(message, { code: 'martingale_job_unknown' });
}
