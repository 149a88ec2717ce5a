import { randomUUID } from 'node:crypto';
import { mayHaveActed, NotFoundError, RequestError } from '../client/index.ts';
import type { ModelHandle } from '../model/index.ts';
import { TrainingJobError, TrainingJobUnknownError } from './errors.ts';
import { type FollowJobOptions, followJob, type JobOutcome } from './follow-job.ts';
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
 * What came of a job, and the step of the checkpoint after it: the one that it trained on from, where it is untrained.
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
  /** The service has said no, or was not reached: it has no such job. */
  isRefused?: boolean | undefined;
  /** There where the service may have a job of which nothing is known. */
  lost?: { why: string; jobId?: string | undefined; isTold?: boolean | undefined } | undefined;
  /** Absent until the job has ended. */
  outcome?: JobEnd | undefined;
}

export interface RunJobOptions<State extends JobState> {
  model: ModelHandle;
  /** Names the job in errors. */
  name: string;
  /** What a person does, who has looked, where it is not known what became of the job: sentences. */
  goOn: (mayAskAgain: boolean) => string;
  /** What an interrupted run knew of it. */
  before: State | undefined;
  /** A job that has not been asked for, under that key. */
  begin: (idempotencyKey: string) => State;
  /** Keeps what is known, so that it outlives the process where anything does. */
  keep: (state: State) => Promise<void>;
  /** Asks the service for the job. */
  create: (state: State, signal: AbortSignal) => Promise<{ jobId: string }>;
  /** Hears of the job's id, be it a new job or one that an interrupted run knew. */
  onKnown: (jobId: string, isNew: boolean) => void;
  onProgress: FollowJobOptions['onProgress'];
  timeoutMs: number | undefined;
  lostJob: LostJobOptions | undefined;
  signal: AbortSignal | undefined;
}

/** The end of the job, or what to ask for so that it comes to one. */
type Next<State> = { end: JobEnd } | { ask: State };

/** So often is a job asked for anew; on a service that loses every answer it would be for ever. */
const mostAsked = 3;

/**
 * Has the service do one training job, and waits for its checkpoint. What is known is kept before and after each
 * call. Where a service knows idempotency keys, an answer that was lost is asked for again under the same key.
 * Elsewhere nothing is asked for twice before the model's checkpoints have been looked at: see `LostJobOptions`.
 * @throws TrainingJobError, TrainingJobTimeoutError, TrainingJobUnknownError, what the client throws, the signal's
 * reason.
 */
export async function runJob<State extends JobState>(options: RunJobOptions<State>): Promise<JobEnd> {
  let next = await takeUp(options);
  for (let asked = 1; 'ask' in next; asked++) next = await ask(options, next.ask, asked);
  return next.end;
}

async function takeUp<State extends JobState>(options: RunJobOptions<State>): Promise<Next<State>> {
  const { before, model } = options;
  if (before?.outcome) return { end: before.outcome };
  if (!before) return { ask: anew(options) };
  if (before.jobId !== undefined) {
    options.onKnown(before.jobId, false);
    try {
      return await follow(options, before, before.jobId);
    } catch (error) {
      // It made no checkpoint, and its reason was told when it happened.
      if (error instanceof TrainingJobError) return { ask: anew(options) };
      throw error;
    }
  }
  if (knowsKeys(model.client) || before.isRefused) return { ask: before };
  const why = before.lost?.why ?? 'The run ended before the service had answered.';
  return settle(options, { ...before, lost: { ...before.lost, why } }, 0);
}

const anew = <State extends JobState>({ begin }: RunJobOptions<State>): State => begin(randomUUID());

async function ask<State extends JobState>(
  options: RunJobOptions<State>,
  state: State,
  asked: number,
): Promise<Next<State>> {
  const { model, signal, keep, create } = options;
  const unanswered: State = { ...state, isRefused: undefined };
  await keep(unanswered);
  let jobId: string;
  try {
    // Not interrupted at once: a job that is asked for and not known could not be cancelled.
    ({ jobId } = await withGrace(signal, stopGraceMs, (patient) => create(unanswered, patient)));
  } catch (error) {
    if (!knowsKeys(model.client) && mayHaveActed(error))
      return settle(options, { ...unanswered, lost: { why: error.message } }, asked);
    if (error instanceof RequestError && !mayHaveActed(error)) await keep({ ...state, isRefused: true });
    throw error;
  }
  // Under the same key the service gives the job that it says it does not have.
  if (jobId === state.lost?.jobId) return settle(options, unanswered, asked);
  const known: State = { ...unanswered, jobId, lost: undefined };
  await keep(known);
  options.onKnown(jobId, true);
  return follow(options, known, jobId, asked);
}

async function follow<State extends JobState>(
  options: RunJobOptions<State>,
  state: State,
  jobId: string,
  asked = 0,
): Promise<Next<State>> {
  const { model, signal, timeoutMs, onProgress } = options;
  try {
    const outcome = await followJob({ client: model.client, jobId, onProgress, timeoutMs, signal });
    return await end(options, state, outcome);
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    const lost: State = { ...state, jobId: undefined, lost: { why: error.message, jobId } };
    if (!knowsKeys(model.client) || asked >= mostAsked) return settle(options, lost, asked);
    // Its checkpoint, where it made one, is there all the same. If not: the same key gives the same job, or another.
    const [step] = await checkpointsAfter(model, state.from, signal);
    return step === undefined ? { ask: lost } : end(options, lost);
  }
}

/** The job has ended. Short and not interrupted at once: a run that is stopped here has its new checkpoint. */
function end<State extends JobState>(
  { model, name, signal, keep }: RunJobOptions<State>,
  state: State,
  { gradientSteps, untrained }: JobOutcome = { gradientSteps: [] },
): Promise<Next<State>> {
  return withGrace(signal, stopGraceMs, async (patient) => {
    const own = await stepOf(model.client, state.jobId, patient);
    const steps =
      own !== undefined && own <= state.from ? [] : await checkpointsAfter(model, state.from, patient);
    if (steps.length > 1)
      warn(
        `${name}: the model has more than one checkpoint after step ${state.from}. Something else trains it too.`,
      );
    if (untrained)
      process.emitWarning(`${name} took no gradient step. ${untrained.message}`, {
        code: 'martingale_job_untrained',
      });
    const outcome = { gradientSteps, untrained, step: own ?? steps[0] ?? state.from };
    await keep({ ...state, outcome });
    return { end: outcome };
  });
}

/** Finds out whether the service had the job, as far as that can be known, and does what is to be done if not. */
async function settle<State extends JobState>(
  options: RunJobOptions<State>,
  state: State,
  asked: number,
): Promise<Next<State>> {
  const { model, name, goOn, keep, signal, lostJob = {} } = options;
  const { waitMs = defaultLostJob.waitMs, decision = defaultLostJob.decision } = lostJob;
  const { why = '', jobId, isTold } = state.lost ?? {};
  await keep(state);
  // Somebody has been told of it, has looked, and has decided.
  const isDecided = isTold === true && decision !== 'stop';
  if (!isDecided) warn(`${name}: ${why} Its checkpoint is waited for, for ${waitMs} ms.`);
  const sighting = await lookForJob({
    ...{ model, jobId, signal },
    from: state.from,
    waitMs: isDecided ? 0 : waitMs,
  });
  if (sighting.type === 'checkpoint') return end(options, state);
  if (sighting.type === 'job' && jobId !== undefined && asked < mostAsked) {
    const known: State = { ...state, jobId, lost: undefined };
    await keep(known);
    return follow(options, known, jobId, asked + 1);
  }
  if (decision === 'take_as_done') return end(options, state);
  if (decision === 'ask_again' && sighting.type === 'nothing' && asked < mostAsked) {
    warn(`${name}: no checkpoint has come of it, so it is asked for again.`);
    return { ask: anew(options) };
  }
  await keep({ ...state, lost: { why, jobId, isTold: true } });
  throw new TrainingJobUnknownError({
    name,
    why,
    model: model.name,
    seen: said(sighting, state.from, waitMs),
    goOn: goOn(sighting.type === 'nothing'),
  });
}

function said(sighting: Sighting, from: number, waitMs: number): string {
  if (sighting.type === 'several')
    return `it has the checkpoints ${sighting.steps.join(' and ')} after step ${from}, and a job makes one`;
  if (sighting.type === 'job') return 'the service knows the job and not its events';
  return `it has shown no checkpoint after step ${from} within ${waitMs} ms`;
}

function warn(message: string): void {
  process.emitWarning(message, { code: 'martingale_job_unknown' });
}
