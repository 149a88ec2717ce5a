import type { z } from 'zod';
import { type Evaluation, endsOf, evaluate } from '../evaluation/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { RunValidation } from '../progress/index.ts';
import { deriveSeed } from '../trajectory/index.ts';
import { usageOf } from './budget.ts';
import { failedShareOf, failedValidation } from './diagnosis/failed-validation.ts';
import { noCompletedRollouts } from './errors.ts';
import type { RunContext } from './run-context.ts';
import { groupsToLog, seatsOfValidation } from './seats.ts';
import { logOnce } from './submit-training.ts';
import type { ValidationOptions } from './train-options.ts';

/** Number of conversations in an `evaluated` event: the first rollout of each of the first scenarios. */
const exampleCount = 8;
/** Part of the seed. No step has it, and all validations do, so that only the model differs between them. */
const validationSeedPath = 0x7a11da7e;

/** Loads the first validation of a resumed run. */
export async function resumeValidation<Schema extends z.ZodType, Outcome>(
  run: RunContext<Schema, Outcome>,
): Promise<void> {
  const before = run.state.evaluations.find(({ step }) => step === 0);
  const { validation } = run.settings;
  if (!validation || !before) return;
  const model = run.learners[0].model.at(before.checkpoint);
  run.validation.before = released(await evaluateStored(run, { validation, model, finishedSteps: 0 }));
}

/** Runs the validation that is due before the next step. Returns null if none is due, or it has already run. */
export async function validateIfDue<Schema extends z.ZodType, Outcome>(
  run: RunContext<Schema, Outcome>,
): Promise<RunValidation | null> {
  const { validation, steps } = run.settings;
  const { finishedSteps, evaluations } = run.state;
  if (!validation || evaluations.some(({ step }) => step === finishedSteps)) return null;
  if (finishedSteps === 0) return validate(run, validation, 'before');
  const { everySteps } = validation;
  const isDue = everySteps && finishedSteps < steps && finishedSteps % everySteps === 0;
  return isDue ? validate(run, validation, `after-step-${finishedSteps}`) : null;
}

/** Runs the last validation of a run. Returns null if there is none, or it has already run. */
export async function validateAtEnd<Schema extends z.ZodType, Outcome>(
  run: RunContext<Schema, Outcome>,
): Promise<RunValidation | null> {
  const { validation } = run.settings;
  const { finishedSteps, evaluations } = run.state;
  if (!validation) return null;
  const hasRun = evaluations.some(({ name, step }) => name === 'after' && step === finishedSteps);
  if (!hasRun) return validate(run, validation, 'after');
  run.validation.after = await evaluateStored(run, {
    validation,
    model: run.learners[0].model,
    finishedSteps,
  });
  return null;
}

/**
 * Evaluates the validation set, writes its trajectories to disk, and logs them with the split `val`. Scenarios that an
 * interrupted run has evaluated do not run again, unless one of their rollouts failed.
 * @param name Name of the event: `before`, `after-step-N` or `after`.
 * @throws TrainingError, or the signal's reason if the run is stopped.
 */
async function validate<Schema extends z.ZodType, Outcome>(
  run: RunContext<Schema, Outcome>,
  validation: ValidationOptions<Schema>,
  name: string,
): Promise<RunValidation> {
  const { directory, emit, signal } = run;
  const { model } = run.learners[0];
  const { finishedSteps, runId } = run.state;
  const phase = `evaluation ${name}`;
  const onProgress = (progress: { done: number; total: number }) =>
    emit({ type: 'phase', phase, ...progress, metrics: {} });
  onProgress({ done: 0, total: validation.scenarios.length * (validation.rolloutsPerScenario ?? 1) });
  const evaluation = await evaluateStored(run, {
    validation,
    model,
    finishedSteps,
    rerunFailed: true,
    onProgress,
  });
  const { counts } = evaluation;
  await directory.writeTrajectories(name, evaluation.groups);
  signal.throwIfAborted();
  run.reportFailures({ name }, evaluation.groups);
  if (!evaluation.reward) throw noCompletedRollouts(`the validation "${name}"`, evaluation.groups);
  const failedShare = failedShareOf(counts);
  await logOnce({
    model,
    split: 'val',
    groups: groupsToLog(evaluation.groups).map((group) => group.toTrajectoryGroup()),
    // If failed rollouts have run again since the last log, the body differs, so it needs another key.
    idempotencyKey: `${runId}/val/${finishedSteps}${failedShare > 0 ? `/${counts.completed}` : ''}`,
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
    intervals: { reward: endsOf(evaluation.reward), success: endsOf(evaluation.success) },
    scenarios: evaluation.perScenario.length,
    scored: evaluation.reward.count,
    counts,
    examples: evaluation.groups
      .slice(0, exampleCount)
      .flatMap(({ trajectories: [first] }) => (first ? [first.toBody()] : [])),
  });
  const alarm = failedValidation({ name, finishedSteps, groups: evaluation.groups, counts });
  if (alarm) emit({ type: 'alarm', ...alarm });
  if (name === 'before' || name === 'after') run.validation[name] = released(evaluation);
  const usage = usageOf(evaluation.groups);
  const checkpoint = model.step ?? 0;
  return { name, step: finishedSteps, policy: model.name, checkpoint, ...score, failedShare, usage };
}

/** The evaluation as it is kept while the run goes on: its files have the tokens. */
function released<Scenario>(evaluation: Evaluation<Scenario>): Evaluation<Scenario> {
  for (const group of evaluation.groups) group.release({ keepsTexts: true });
  return evaluation;
}

interface StoredEvaluation<Schema extends z.ZodType> {
  validation: ValidationOptions<Schema>;
  model: ModelHandle;
  finishedSteps: number;
  /** Whether scenarios with a failed rollout run again. Default false, for a validation in the run's state. */
  rerunFailed?: boolean;
  onProgress?: (progress: { done: number; total: number }) => void;
}

/** Loads an evaluation from the run directory, and runs the scenarios that are missing there. */
function evaluateStored<Schema extends z.ZodType, Outcome>(
  { settings, rollouts, directory, state, signal }: RunContext<Schema, Outcome>,
  { validation, model, finishedSteps, rerunFailed = false, onProgress }: StoredEvaluation<Schema>,
): Promise<Evaluation<z.output<Schema>>> {
  return evaluate({
    ...rollouts,
    // In a validation every completed rollout counts.
    groupStrategy: undefined,
    seats: seatsOfValidation(validation.seats, { trained: settings.seats, state, finishedSteps }),
    environment: settings.environment,
    scenarios: validation.scenarios,
    model,
    seed: deriveSeed(rollouts.seed, validationSeedPath),
    rolloutsPerScenario: validation.rolloutsPerScenario ?? 1,
    onProgress,
    temperature: validation.temperature,
    prices: settings.prices,
    directory: directory.evaluationFolder(finishedSteps),
    rerunFailed,
    // The run emits its own progress events.
    progress: false,
    signal,
  });
}
