/*
 * What always holds of a run:
 * - Every emitted event, except of single rollouts, is appended to the directory before the listener gets it.
 * - A step is finished when its state is on disk. Its metrics are written before that, its journal is deleted after.
 * - The policy is the first learner. `policySteps` of each has an entry for the start and one for each finished step.
 * - A run ends once, by `end` or `fail`: all rollouts have ended by then, and each counts as completed, failed or
 *   cancelled.
 * - Old checkpoints are deleted in the background, one round at a time, and never fail the run.
 */
import type { z } from 'zod';
import { MartingaleError } from '../contract/index.ts';
import type { RunListener, RunValidation, StepReport } from '../progress/index.ts';
import type { WholeRolloutSettings } from '../rollout/index.ts';
import { messageOf } from '../util/error.ts';
import { LoopDelay } from '../util/loop-delay.ts';
import { reachedLimit } from './budget.ts';
import { pruneLearners } from './checkpoints.ts';
import { noScenarios, runOptionError } from './errors.ts';
import { countGrace } from './grace.ts';
import type { RunContext } from './run-context.ts';
import { type RunDirectory, runFiles } from './run-directory.ts';
import { reportAlarms, reportFailures } from './run-events.ts';
import {
  addCounts,
  askedFormsOf,
  countsOf,
  type RunEnd,
  type RunResults,
  resultOf,
  rewrittenHistoriesOf,
  toSummary,
  usageOfRun,
} from './run-record.ts';
import type { StepResult } from './run-step.ts';
import { runWarmStart } from './sft-job.ts';
import { startRun } from './start-run.ts';
import { type StepInFlight, StepQueue } from './step-queue.ts';
import { type TrainOptions, type TrainResult, trainDefaults } from './train-options.ts';
import { resumeValidation, validateAtEnd, validateIfDue } from './validate.ts';

interface RunParts {
  rollouts: WholeRolloutSettings;
  directory: RunDirectory;
  /** Must not throw. */
  listener: RunListener;
}

/** A run. Call `start`, `loop`, then `end` or `fail`. */
export class Run<Schema extends z.ZodType, Outcome> {
  readonly #options: TrainOptions<Schema, Outcome>;
  readonly #directory: RunDirectory;
  readonly #rollouts: WholeRolloutSettings;
  readonly #startedAt = performance.now();
  readonly #listener: RunListener;
  readonly #ending = new AbortController();
  readonly #loopDelay = new LoopDelay();
  readonly #signal: AbortSignal;
  readonly #queue: StepQueue<Schema, Outcome>;
  readonly #validation: TrainResult<z.output<Schema>>['validation'] = { before: null, after: null };
  /** Undefined until the model is open. */
  #context: RunContext<Schema, Outcome> | undefined;
  #secondsBefore = 0;
  #reports: StepReport[] = [];
  #reportAlarms: () => void = () => undefined;
  /** Deletes old checkpoints after the last step. Never rejects. */
  #pruning: Promise<void> = Promise.resolve();

  constructor(options: TrainOptions<Schema, Outcome>, { rollouts, directory, listener }: RunParts) {
    const { signal } = options;
    this.#options = options;
    this.#directory = directory;
    this.#listener = listener;
    this.#rollouts = rollouts;
    this.#signal = signal ? AbortSignal.any([signal, this.#ending.signal]) : this.#ending.signal;
    countGrace(this.#signal);
    this.#queue = new StepQueue(options);
  }

  /** Opens or resumes the run. Returns the model, pinned to the checkpoint that the run starts from. */
  async start() {
    const { steps, groupsPerStep, rolloutsPerGroup, maxStaleness, warmStart } = this.#options;
    const started = await startRun(this.#options, this.#directory, this.#queue.position.position);
    const { state, learners, reports, baseModel, isResumed, fromStep, changedVersions } = started;
    const { model } = learners[0];
    this.#secondsBefore = state.seconds;
    this.#reports = reports;
    const run: RunContext<Schema, Outcome> = {
      settings: this.#options,
      rollouts: this.#rollouts,
      directory: this.#directory,
      emit: this.#emit,
      reportFailures: reportFailures(this.#emit),
      loopDelay: this.#loopDelay,
      signal: this.#signal,
      state,
      reports: () => this.#reports,
      storesGroups: state.storesGroups,
      learners,
      validation: this.#validation,
    };
    this.#context = run;
    const bound = maxStaleness ?? trainDefaults.maxStaleness;
    this.#reportAlarms = reportAlarms(() => this.#figures, bound, this.#emit);
    this.#emit({
      type: 'run_started',
      runDirectory: this.#directory.path,
      model: model.name,
      fromStep,
      steps,
      groupsPerStep,
      rolloutsPerGroup,
      ...(isResumed
        ? { finishedSteps: state.finishedSteps, finishedReports: [...reports], changedVersions }
        : {}),
    });
    if (isResumed) {
      await this.#queue.resume(run);
      await resumeValidation(run);
    }
    await this.#saveState();
    if (warmStart && state.finishedSteps === 0) {
      await runWarmStart(run, warmStart);
      await this.#saveState();
    }
    return { model, baseModel };
  }

  async loop(): Promise<RunEnd> {
    const run = this.#run;
    await this.#addValidation(await validateIfDue(run));
    let end: RunEnd | null = null;
    while (run.state.finishedSteps < this.#options.steps) {
      this.#signal.throwIfAborted();
      end = this.#endReason();
      if (end) break;
      await this.#queue.admit(run);
      const { next } = this.#queue;
      if (!next) {
        const { finishedSteps } = run.state;
        if (finishedSteps === 0) throw noScenarios();
        const because = `the scenarios ended after step ${finishedSteps} of ${this.#options.steps}; \`repeat()\` of a set draws them again`;
        end = { reason: 'finished', because };
        break;
      }
      await this.#finish(next, await next.train());
      await this.#addValidation(await validateIfDue(run));
    }
    if (end?.reason !== 'budget') await this.#addValidation(await validateAtEnd(run));
    return end ?? { reason: 'finished', because: null };
  }

  async end({ reason, because }: RunEnd): Promise<TrainResult<z.output<Schema>>> {
    const counts = await this.#settle();
    const seconds = this.#seconds;
    const runDirectory = this.#directory.path;
    const rewrittenHistories = rewrittenHistoriesOf(this.#reports);
    const askedForms = askedFormsOf(this.#reports);
    this.#emit({
      type: 'run_ended',
      reason,
      ...(because === null ? {} : { because }),
      ...(rewrittenHistories > 0 ? { rewrittenHistories } : {}),
      ...(askedForms.length > 0 ? { askedForms } : {}),
      seconds,
      runDirectory,
    });
    await this.#directory.settle();
    if (this.#context) await this.#saveState();
    const results = { reports: this.#reports, counts, usage: this.#usage, validation: this.#validation };
    await this.#writeSummary({ reason, because }, { ...results, seconds });
    // Stopped before the model was open, so there is nothing to return.
    if (!this.#context) throw this.#options.signal?.reason;
    const best = resultOf(this.#context, this.#options);
    return { reason, because, runDirectory, seconds, ...results, ...best };
  }

  async fail(error: unknown): Promise<void> {
    const counts = await this.#settle();
    if (!this.#context) return this.#directory.discard();
    // The original error matters more than an event that could not be written.
    await this.#directory.settle().catch(() => undefined);
    const message = messageOf(error);
    const code = MartingaleError.isInstance(error) ? error.code : 'unexpected';
    await this.#saveState();
    const results = { reports: this.#reports, counts, usage: this.#usage, validation: this.#validation };
    const end = { reason: 'failed', error: { code, message } };
    await this.#writeSummary(end, { ...results, seconds: this.#seconds });
  }

  #writeSummary(end: object, results: RunResults): Promise<void> {
    const summary = toSummary(results, this.#context?.learners[0].model);
    return this.#directory.write(runFiles.summary, { ...end, ...summary });
  }

  /** Records a trained step durably. */
  async #finish(step: StepInFlight<Schema>, { report, learners }: StepResult): Promise<void> {
    const run = this.#run;
    const { state } = run;
    await this.#pruning;
    await this.#directory.appendMetrics(report);
    await this.#queue.settle(step);
    for (const { learner, job } of learners) learner.advance(job?.step);
    state.finishedSteps = step.step + 1;
    this.#reports.push(report);
    await this.#saveState();
    await this.#directory.deleteJournal(step.step);
    this.#emit({ type: 'step', ...report });
    this.#reportAlarms();
    // The next rollouts do not wait for this.
    this.#pruning = pruneLearners(run);
  }

  async #addValidation(point: RunValidation | null): Promise<void> {
    if (!point) return;
    const { state } = this.#run;
    // A run that ends early may end at a step that was just validated.
    state.evaluations = [...state.evaluations.filter(({ step }) => step !== point.step), point];
    await this.#saveState();
    this.#reportAlarms();
  }

  /** Why the run ends before its next step; null if it does not. */
  #endReason(): RunEnd | null {
    const { stopWhen, budget } = this.#options;
    const { evaluations } = this.#run.state;
    const because = this.#reports.length > 0 && stopWhen?.({ reports: this.#reports, evaluations });
    if (because && typeof because !== 'string')
      throw runOptionError('stopWhen', '`stopWhen` must return a string or false, not a promise.');
    if (because) return { reason: 'early_stop', because };
    const usage = this.#usage;
    const limit = budget ? reachedLimit(budget, { usage, cost: usage.cost, seconds: this.#seconds }) : null;
    return limit === null ? null : { reason: 'budget', because: limit };
  }

  /** Cancels steps in flight, writes their groups to disk, and returns the counts of all rollouts. */
  async #settle() {
    this.#ending.abort(new MartingaleError('run_ended', 'The run has ended.'));
    this.#loopDelay[Symbol.dispose]();
    const counts = countsOf(this.#reports);
    addCounts(counts, await this.#queue.cancelPending(this.#directory));
    await this.#pruning;
    if (!this.#options.executor) await this.#rollouts.executor.close();
    return counts;
  }

  #saveState(): Promise<void> {
    const state = { ...this.#run.state, ...this.#queue.position, seconds: this.#seconds };
    return this.#directory.write(runFiles.state, state);
  }

  readonly #emit: RunListener = (event) => {
    // Events of single rollouts would add nothing to the report of their step or validation.
    if (event.type !== 'rollouts' && !(event.type === 'phase' && event.phase.startsWith('evaluation ')))
      this.#directory.appendEvent(event);
    this.#listener(event);
  };

  get #figures() {
    return { reports: this.#reports, evaluations: this.#context?.state.evaluations ?? [] };
  }

  get #run(): RunContext<Schema, Outcome> {
    if (!this.#context) throw new TypeError('The run has not started.');
    return this.#context;
  }

  get #usage() {
    return usageOfRun(this.#figures, this.#options.prices);
  }

  /** Seconds of the run, including those before a resume. */
  get #seconds(): number {
    return this.#secondsBefore + (performance.now() - this.#startedAt) / 1000;
  }
}
