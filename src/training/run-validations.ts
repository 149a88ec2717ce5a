import type { z } from 'zod';
import type { ModelHandle } from '../model/index.ts';
import type { RunValidation } from '../progress/index.ts';
import type { RunContext } from './run-context.ts';
import type { RunState } from './run-state.ts';
import type { TrainResult, ValidationOptions } from './train-options.ts';
import { evaluateKept, validate } from './validate.ts';

type Standing = { model: ModelHandle; state: RunState };

/** The validations of a run: before its first step, after those that it is asked for, and at its end. */
export class RunValidations<Schema extends z.ZodType, Outcome> {
  readonly ends: TrainResult<z.output<Schema>>['validation'] = { before: null, after: null };
  readonly #validation: ValidationOptions<Schema> | undefined;

  constructor(validation: ValidationOptions<Schema> | undefined) {
    this.#validation = validation;
  }

  /** Reads the first one again, where a run is resumed that has it. */
  async takeUp(context: RunContext<Schema, Outcome>, { model, state }: Standing): Promise<void> {
    const before = state.evaluations.find(({ step }) => step === 0);
    const validation = this.#validation;
    if (!validation || !before) return;
    const options = { context, validation, name: before.name, finishedSteps: 0 };
    this.ends.before = await evaluateKept(
      { ...options, model: model.at(before.checkpoint) },
      { rerunFailed: false },
    );
  }

  /** Null where none is due, or it is known from before a resume. */
  async ifDue(context: RunContext<Schema, Outcome>, standing: Standing): Promise<RunValidation | null> {
    const { finishedSteps, evaluations } = standing.state;
    const { everySteps } = this.#validation ?? {};
    if (evaluations.some(({ step }) => step === finishedSteps)) return null;
    if (finishedSteps === 0) return this.#run('before', context, standing);
    const isDue = everySteps && finishedSteps < context.settings.steps && finishedSteps % everySteps === 0;
    return isDue ? this.#run(`step-${finishedSteps}`, context, standing) : null;
  }

  async last(context: RunContext<Schema, Outcome>, standing: Standing): Promise<RunValidation | null> {
    const { model, state } = standing;
    const { finishedSteps, evaluations } = state;
    const validation = this.#validation;
    const isKnown = evaluations.some(({ name, step }) => name === 'after' && step === finishedSteps);
    if (!validation || !isKnown) return this.#run('after', context, standing);
    this.ends.after = await evaluateKept(
      { context, validation, model, name: 'after', finishedSteps },
      { rerunFailed: false },
    );
    return null;
  }

  async #run(
    name: string,
    context: RunContext<Schema, Outcome>,
    { model, state: { finishedSteps } }: Standing,
  ): Promise<RunValidation | null> {
    const validation = this.#validation;
    if (!validation) return null;
    const { evaluation, point } = await validate({ context, validation, model, name, finishedSteps });
    if (name === 'before' || name === 'after') this.ends[name] = evaluation;
    return point;
  }
}
