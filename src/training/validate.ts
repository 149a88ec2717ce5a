import type { z } from 'zod';
import { type Evaluation, evaluate } from '../evaluation/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { RunListener, RunValidation } from '../progress/index.ts';
import { deriveSeed } from '../trajectory/index.ts';
import { usageOf } from './budget.ts';
import { failedShareOf, failedValidation } from './diagnosis/failed-validation.ts';
import { noCompletedRollouts } from './errors.ts';
import type { RunContext } from './run-context.ts';
import type { RunState } from './run-state.ts';
import { logOnce } from './submit-training.ts';
import type { TrainResult, ValidationOptions } from './train-options.ts';

/** Approximate number of `phase` events per validation. Views need no more, and the run directory stores them all. */
const progressEvents = 20;
/** Number of conversations in an `evaluated` event: the first rollout of each of the first scenarios. */
const exampleCount = 8;
/** Differs from every step's seed. The same for all validations, so that only the model differs between them. */
const validationSeedPath = 0x7a11da7e;

export interface ValidateOptions<Schema extends z.ZodType, Outcome> {
  context: RunContext<Schema, Outcome>;
  validation: ValidationOptions<Schema>;
  model: ModelHandle;
  /** Name of the event: `before`, `after-step-N` or `after`. */
  name: string;
  /** Number of finished steps. */
  finishedSteps: number;
}

/** Emits a `phase` event each time a further share of the rollouts has ended, always including the first and last. */
function progressTeller(name: string, emit: RunListener) {
  let told = -1;
  return ({ done, total }: { done: number; total: number }) => {
    const share = Math.floor((done / total) * progressEvents);
    if (share === told) return;
    told = share;
    emit({ type: 'phase', phase: `evaluation ${name}`, done, total, metrics: {} });
  };
}

/**
 * Evaluates the validation set, writes its trajectories to disk, and logs them with the split `val`. Scenarios that an
 * interrupted run has evaluated do not run again, unless one of their rollouts failed.
 * @throws TrainingError, or the signal's reason if the run is stopped.
 */
export async function validate<Schema extends z.ZodType, Outcome>(
  options: ValidateOptions<Schema, Outcome>,
): Promise<{ evaluation: Evaluation<z.output<Schema>>; point: RunValidation }> {
  const { context, validation, model, name, finishedSteps } = options;
  const { directory, emit, signal, runId } = context;
  const tell = progressTeller(name, emit);
  tell({ done: 0, total: validation.scenarios.length * (validation.rolloutsPerScenario ?? 1) });
  const evaluation = await evaluateKept(options, { rerunFailed: true, onProgress: tell });
  await directory.writeTrajectories(name, evaluation.groups);
  signal.throwIfAborted();
  context.tellFailures({ name }, evaluation.groups);
  if (!evaluation.reward) throw noCompletedRollouts(`the validation "${name}"`, evaluation.groups);
  const groups = evaluation.groups.map((group) => group.toTrajectoryGroup());
  const { counts } = evaluation;
  const failedShare = failedShareOf(counts);
  // If failed rollouts have run again since the last log, the body differs, so it needs another key.
  const idempotencyKey = `${runId}/val/${finishedSteps}${failedShare > 0 ? `/${counts.completed}` : ''}`;
  await logOnce({
    model,
    split: 'val',
    groups,
    idempotencyKey,
    signal,
    directory,
    name: `validation-${name}`,
  });
  const score = { reward: evaluation.reward.mean, success: evaluation.success?.mean ?? null };
  emit({
    type: 'evaluated',
    name,
    policy: model.name,
    score,
    scenarios: evaluation.perScenario.length,
    scored: evaluation.reward.count,
    counts,
    examples: evaluation.groups
      .slice(0, exampleCount)
      .flatMap(({ trajectories: [first] }) => (first ? [first.toBody()] : [])),
  });
  const alarm = failedValidation({ name, finishedSteps, groups: evaluation.groups, counts });
  if (alarm) emit({ type: 'alarm', ...alarm });
  const usage = usageOf(evaluation.groups);
  const checkpoint = model.step ?? 0;
  const point = { name, step: finishedSteps, policy: model.name, checkpoint, ...score, failedShare, usage };
  return { evaluation, point };
}

interface KeptEvaluation {
  /** Whether scenarios with a failed rollout run again. False for a validation that is already in the run's state. */
  rerunFailed: boolean;
  onProgress?: (progress: { done: number; total: number }) => void;
}

/** Loads an evaluation from the run directory, and runs the scenarios that are missing there. */
export function evaluateKept<Schema extends z.ZodType, Outcome>(
  { context, validation, model, finishedSteps }: ValidateOptions<Schema, Outcome>,
  { rerunFailed, onProgress }: KeptEvaluation,
): Promise<Evaluation<z.output<Schema>>> {
  const { settings, rollouts, directory, signal } = context;
  return evaluate({
    ...rollouts,
    // In a validation every completed rollout counts.
    groupStrategy: undefined,
    environment: settings.environment,
    scenarios: validation.scenarios,
    model,
    seed: deriveSeed(rollouts.seed, validationSeedPath),
    rolloutsPerScenario: validation.rolloutsPerScenario ?? 1,
    onProgress,
    temperature: validation.temperature,
    directory: directory.evaluationFolder(finishedSteps),
    rerunFailed,
    // The run emits its own progress events.
    progress: false,
    signal,
  });
}

type Standing = { model: ModelHandle; state: RunState };

/** The validations of a run: before its first step, every `everySteps` steps, and at its end. */
export class RunValidations<Schema extends z.ZodType, Outcome> {
  readonly ends: TrainResult<z.output<Schema>>['validation'] = { before: null, after: null };
  readonly #validation: ValidationOptions<Schema> | undefined;

  constructor(validation: ValidationOptions<Schema> | undefined) {
    this.#validation = validation;
  }

  /** Loads the first validation of a resumed run. */
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

  /** Null if no validation is due, or it has already run. */
  async ifDue(context: RunContext<Schema, Outcome>, standing: Standing): Promise<RunValidation | null> {
    const { finishedSteps, evaluations } = standing.state;
    const { everySteps } = this.#validation ?? {};
    if (evaluations.some(({ step }) => step === finishedSteps)) return null;
    if (finishedSteps === 0) return this.#run('before', context, standing);
    const isDue = everySteps && finishedSteps < context.settings.steps && finishedSteps % everySteps === 0;
    return isDue ? this.#run(`after-step-${finishedSteps}`, context, standing) : null;
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
