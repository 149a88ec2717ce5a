import type { z } from 'zod';
import { MartingaleError } from '../contract/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { Books } from '../rollout/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { resolveModel } from './model-source.ts';
import type { RunDirectory } from './run-directory.ts';
import type { RunListener } from './run-event.ts';
import { toConfig, toSummary } from './run-record.ts';
import { ScenarioSampler } from './scenario-sampler.ts';
import type { TrainOptions, TrainResult } from './train-options.ts';
import { trainStep } from './train-step.ts';
import { validate } from './validate.ts';

/** What a run has reached so far, and its parts in order: `start`, `loop`, then `end` or `fail`. */
export class Run<Schema extends z.ZodType, Outcome> {
  readonly #options: TrainOptions<Schema, Outcome>;
  readonly #directory: RunDirectory;
  readonly #result: Omit<TrainResult<z.output<Schema>>, 'reason' | 'model' | 'finalStep' | 'seconds'>;
  #model: ModelHandle | undefined;
  #checkpoints: number[] = [];

  constructor(options: TrainOptions<Schema, Outcome>, directory: RunDirectory) {
    this.#options = options;
    this.#directory = directory;
    this.#result = {
      runDirectory: directory.path,
      reports: [],
      books: { dispatched: 0, completed: 0, failed: 0, cancelled: 0 },
      validation: { before: null, after: null },
    };
  }

  async start(): Promise<void> {
    const { steps, groupsPerStep, rolloutsPerGroup, signal } = this.#options;
    this.#model = await resolveModel(this.#options, signal);
    await this.#directory.writeConfig(toConfig(this.#options, this.#model));
    this.#emit({
      type: 'run_started',
      runDirectory: this.#directory.path,
      model: this.#model.name,
      steps,
      groupsPerStep,
      rolloutsPerGroup,
    });
  }

  async loop(): Promise<void> {
    const { scenarios, seed = 0, steps, groupsPerStep, validation, signal } = this.#options;
    const sampler = new ScenarioSampler(scenarios, seed);
    this.#result.validation.before = await this.#validate('before');
    for (let step = 0; step < steps; step++) {
      signal?.throwIfAborted();
      const attributes = { [attribute.step]: step, [attribute.policyVersion]: this.#model?.step };
      const { report, model, checkpoints } = await withSpan(spanName.step, attributes, () =>
        trainStep({
          settings: this.#options,
          step,
          scenarios: sampler.at(step * groupsPerStep, groupsPerStep),
          model: this.#opened(),
          checkpoints: this.#checkpoints,
          directory: this.#directory,
          emit: this.#emit,
          onBooks: (books) => this.#addBooks(books),
        }),
      );
      this.#result.reports.push(report);
      this.#model = model;
      this.#checkpoints = checkpoints;
      const finished = step + 1;
      if (validation?.everySteps && finished < steps && finished % validation.everySteps === 0) {
        await this.#validate(`step-${finished}`);
      }
    }
    this.#result.validation.after = await this.#validate('after');
  }

  async end(reason: 'finished' | 'stopped', begun: number): Promise<TrainResult<z.output<Schema>>> {
    const seconds = (performance.now() - begun) / 1000;
    this.#emit({ type: 'run_ended', reason, seconds, runDirectory: this.#directory.path });
    await this.#directory.settle();
    await this.#directory.writeSummary({ reason, ...toSummary(this.#result, this.#model, seconds) });
    // Stopped before there was a model: there is nothing to return.
    const model = this.#model;
    if (!model) throw this.#options.signal?.reason;
    return { reason, ...this.#result, model, finalStep: model.step ?? 0, seconds };
  }

  async fail(error: unknown, begun: number): Promise<void> {
    // Why the run failed matters more than an event that could not be written.
    await this.#directory.settle().catch(() => undefined);
    const message = error instanceof Error ? error.message : String(error);
    const code = MartingaleError.isInstance(error) ? error.code : 'unexpected';
    await this.#directory.writeSummary({
      reason: 'failed',
      error: { code, message },
      ...toSummary(this.#result, this.#model, (performance.now() - begun) / 1000),
    });
  }

  readonly #emit: RunListener = (event) => {
    // A line for every rollout would say nothing that the step's report does not.
    if (event.type !== 'rollouts') this.#directory.appendEvent(event);
    this.#options.onEvent?.(event);
  };

  #opened(): ModelHandle {
    if (!this.#model) throw new TypeError('The run has no model yet.');
    return this.#model;
  }

  async #validate(name: string) {
    const { validation } = this.#options;
    if (!validation) return null;
    return validate({
      settings: this.#options,
      validation,
      model: this.#opened(),
      name,
      directory: this.#directory,
      emit: this.#emit,
    });
  }

  #addBooks(books: Books): void {
    const total = this.#result.books;
    total.dispatched += books.dispatched;
    total.completed += books.completed;
    total.failed += books.failed;
    total.cancelled += books.cancelled;
  }
}
