import type { z } from 'zod';
import { MartingaleError } from '../contract/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { RunListener, RunValidation, StepReport } from '../progress/index.ts';
import { type WholeRolloutSettings, wholeRolloutSettings } from '../rollout/index.ts';
import { usedUp } from './budget.ts';
import { keepPruned } from './checkpoints.ts';
import { runOptionError } from './errors.ts';
import { countGrace } from './grace.ts';
import type { RunContext } from './run-context.ts';
import { LoopDelay } from './run-context.ts';
import type { RunDirectory } from './run-directory.ts';
import { alarmTeller, failureTeller, safeListener } from './run-events.ts';
import { addCounts, countsOf, type RunEnd, resultOf, toSummary, usageOfRun } from './run-record.ts';
import type { RunState } from './run-state.ts';
import type { StepResult } from './run-step.ts';
import { startRun } from './start-run.ts';
import { StepQueue } from './step-queue.ts';
import type { TrainOptions, TrainResult } from './train-options.ts';
import { trainDefaults } from './train-options.ts';
import { RunValidations } from './validate.ts';
import { runWarmStart } from './warm-start.ts';

/** A run. Call `start`, `loop`, then `end` or `fail`. */
export class Run<Schema extends z.ZodType, Outcome> {
  readonly #options: TrainOptions<Schema, Outcome>;
  readonly #directory: RunDirectory;
  readonly #rollouts: WholeRolloutSettings;
  readonly #begun = performance.now();
  readonly #listener: RunListener;
  readonly #ending = new AbortController();
  readonly #loopDelay = new LoopDelay();
  readonly #signal: AbortSignal;
  readonly #queue: StepQueue<Schema, Outcome>;
  readonly #validations: RunValidations<Schema, Outcome>;
  #reports: StepReport[] = [];
  #raiseAlarms: () => void = () => undefined;
  #started: { model: ModelHandle; state: RunState } | undefined;

  constructor(options: TrainOptions<Schema, Outcome>, directory: RunDirectory) {
    const { signal, rolloutTimeoutMs: timeoutMs, rolloutsPerGroup } = options;
    this.#options = options;
    this.#directory = directory;
    this.#rollouts = wholeRolloutSettings({ ...options, timeoutMs }, rolloutsPerGroup);
    this.#listener = safeListener(options.onEvent);
    this.#signal = signal ? AbortSignal.any([signal, this.#ending.signal]) : this.#ending.signal;
    countGrace(this.#signal);
    this.#queue = new StepQueue(options);
    this.#validations = new RunValidations(options.validation);
  }

  /** Opens or resumes the run. Returns the model, pinned to the checkpoint that the run starts from. */
  async start(): Promise<{ model: ModelHandle; baseModel: string | null }> {
    const { steps, groupsPerStep, rolloutsPerGroup, maxStaleness } = this.#options;
    const started = await startRun(this.#options, this.#directory, () => this.#queue.position());
    this.#started = started;
    this.#reports = started.reports;
    const { state, model, baseModel, isResumed, fromStep, changedVersions } = started;
    this.#raiseAlarms = alarmTeller(this.#figures, maxStaleness ?? trainDefaults.maxStaleness, this.#emit);
    this.#emit({
      type: 'run_started',
      runDirectory: this.#directory.path,
      model: model.name,
      fromStep,
      steps,
      groupsPerStep,
      rolloutsPerGroup,
      ...(isResumed
        ? { finishedSteps: state.finishedSteps, finishedReports: [...this.#reports], changedVersions }
        : {}),
    });
    if (isResumed) {
      await this.#queue.takeUp(this.#context, started);
      await this.#validations.takeUp(this.#context, started);
    }
    await this.#note('running');
    await this.#warmStart();
    return { model, baseModel };
  }

  /** A resumed run continues with the job that an earlier part requested, so nothing is trained twice. */
  async #warmStart(): Promise<void> {
    const { warmStart } = this.#options;
    const run = this.#run;
    if (!warmStart || run.state.finishedSteps > 0) return;
    run.model = await runWarmStart(this.#context, run.model, warmStart);
    run.state.policySteps = [run.model.step ?? 0];
    await this.#note('running');
  }

  async loop(): Promise<RunEnd> {
    const { steps } = this.#options;
    const { state } = this.#run;
    let end: RunEnd = { reason: 'finished', because: null };
    await this.#validateWith((validations) => validations.ifDue(this.#context, this.#run));
    while (state.finishedSteps < steps) {
      this.#signal.throwIfAborted();
      const early = this.#whyEnd();
      if (early) {
        end = early;
        break;
      }
      await this.#queue.admit(this.#context, this.#run, () => this.#note('running'));
      const { next: task } = this.#queue;
      if (!task) break;
      await this.#finish(task, await task.train(this.#run.model));
      await this.#validateWith((validations) => validations.ifDue(this.#context, this.#run));
    }
    if (end.reason !== 'budget')
      await this.#validateWith((validations) => validations.last(this.#context, this.#run));
    return end;
  }

  async end({ reason, because }: RunEnd): Promise<TrainResult<z.output<Schema>>> {
    const counts = await this.#settle();
    const seconds = this.#seconds;
    const said = because === null ? {} : { because };
    this.#emit({ type: 'run_ended', reason, ...said, seconds, runDirectory: this.#directory.path });
    await this.#directory.settle();
    const started = this.#started;
    if (started) await this.#note(reason);
    const figures = {
      reports: this.#reports,
      counts,
      usage: this.#usage,
      validation: this.#validations.ends,
    };
    const parts = started?.state.parts ?? [];
    const summary = toSummary(figures, started?.model, seconds);
    await this.#directory.writeSummary({ reason, because, ...summary, parts });
    // Stopped before the model was open, so there is nothing to return.
    if (!started) throw this.#options.signal?.reason;
    const end = { reason, because, runDirectory: this.#directory.path, seconds };
    return { ...end, ...figures, ...resultOf(started, this.#options.keepCheckpoints) };
  }

  async fail(error: unknown): Promise<void> {
    const counts = await this.#settle();
    if (!this.#started) return this.#directory.discard();
    // The original error matters more than an event that could not be written.
    await this.#directory.settle().catch(() => undefined);
    const message = error instanceof Error ? error.message : String(error);
    const code = MartingaleError.isInstance(error) ? error.code : 'unexpected';
    await this.#note('failed');
    const figures = {
      reports: this.#reports,
      counts,
      usage: this.#usage,
      validation: this.#validations.ends,
    };
    await this.#directory.writeSummary({
      reason: 'failed',
      error: { code, message },
      ...toSummary(figures, this.#started.model, this.#seconds),
      parts: this.#started.state.parts,
    });
  }

  /** Records a trained step durably. */
  async #finish(
    task: NonNullable<StepQueue<Schema, Outcome>['next']>,
    { report, model }: StepResult,
  ): Promise<void> {
    const run = this.#run;
    await this.#directory.appendMetrics(report);
    await this.#queue.settle(task);
    const made = model.step ?? 0;
    run.state.policySteps.push(made);
    if (made !== run.model.step) run.state.checkpoints.push(made);
    run.state.finishedSteps = task.step + 1;
    run.model = model;
    this.#reports.push(report);
    await this.#note('running');
    await this.#directory.dropKeptGroups(task.step);
    this.#emit({ type: 'step', ...report });
    this.#raiseAlarms();
    run.state.checkpoints = await keepPruned({ ...this.#options, signal: this.#signal }, run);
  }

  async #validateWith(
    validate: (validations: RunValidations<Schema, Outcome>) => Promise<RunValidation | null>,
  ): Promise<void> {
    const point = await validate(this.#validations);
    if (!point) return;
    const { state } = this.#run;
    // A run that ends early may end at a step that was just validated.
    state.evaluations = [...state.evaluations.filter(({ step }) => step !== point.step), point];
    await this.#note('running');
    this.#raiseAlarms();
  }

  #whyEnd(): RunEnd | null {
    const { stopWhen, budget } = this.#options;
    const { evaluations } = this.#run.state;
    const said = this.#reports.length > 0 && stopWhen?.({ reports: this.#reports, evaluations });
    if (said && typeof said !== 'string')
      throw runOptionError(
        'stopWhen',
        '`stopWhen` gave something else than a text or false. It must answer at once: an asynchronous one cannot.',
      );
    if (said) return { reason: 'early_stop', because: said };
    const usage = this.#usage;
    const used = budget ? usedUp(budget, { usage, cost: usage.cost, seconds: this.#seconds }) : null;
    return used === null ? null : { reason: 'budget', because: used };
  }

  /** Cancels steps in flight, writes their groups to disk, and returns the counts of all rollouts. */
  async #settle() {
    this.#ending.abort(new MartingaleError('run_ended', 'The run has ended.'));
    this.#loopDelay[Symbol.dispose]();
    const counts = countsOf(this.#reports);
    addCounts(counts, await this.#queue.cancelPending(this.#directory));
    if (!this.#options.executor) await this.#rollouts.executor.close();
    return counts;
  }

  async #note(reason: string): Promise<void> {
    const { state } = this.#run;
    const part = state.parts.at(-1);
    if (part) {
      part.seconds = (performance.now() - this.#begun) / 1000;
      part.toStep = state.finishedSteps;
      part.reason = reason;
    }
    const position = this.#queue.position();
    await this.#directory.writeState({ ...state, position, draws: this.#queue.draws });
  }

  readonly #emit: RunListener = (event) => {
    // Events of single rollouts would add nothing to the report of their step.
    if (event.type !== 'rollouts') this.#directory.appendEvent(event);
    this.#listener(event);
  };

  readonly #tellFailures = failureTeller((event) => this.#emit(event));

  #figures = () => ({ reports: this.#reports, evaluations: this.#started?.state.evaluations ?? [] });

  get #run(): { model: ModelHandle; state: RunState } {
    if (!this.#started) throw new TypeError('The run has not started.');
    return this.#started;
  }

  get #context(): RunContext<Schema, Outcome> {
    const { runId } = this.#run.state;
    return {
      settings: this.#options,
      rollouts: this.#rollouts,
      directory: this.#directory,
      emit: this.#emit,
      tellFailures: this.#tellFailures,
      loopDelay: this.#loopDelay,
      runId,
      signal: this.#signal,
    };
  }

  get #usage() {
    return usageOfRun(this.#figures(), this.#options.prices);
  }

  /** Seconds over all parts of the run. */
  get #seconds(): number {
    const parts = this.#started?.state.parts ?? [];
    const before = parts.slice(0, -1).reduce((sum, { seconds }) => sum + seconds, 0);
    return before + (performance.now() - this.#begun) / 1000;
  }
}
