import type { z } from 'zod';
import type { Environment } from '../environment/index.ts';
import { type Evaluation, evaluate } from '../evaluation/index.ts';
import type { ModelHandle } from '../model/index.ts';
import { deriveSeed } from '../trajectory/index.ts';
import { NoCompletedRolloutsError } from './errors.ts';
import type { RunDirectory } from './run-directory.ts';
import type { RunListener } from './run-event.ts';
import { logTrajectories } from './submit-training.ts';
import type { TrainSettings, ValidationOptions } from './train-options.ts';

/** About how many `phase` events an evaluation gives: a view needs no more, and the run directory keeps them all. */
const progressEvents = 20;
/** Conversations that an `evaluated` event carries: the first rollout of each of the first scenarios. */
const exampleCount = 8;
/** Apart from every step's seed; the same at each validation, so that two of them differ by the model alone. */
const validationSeedPath = 0x7a11da7e;

export interface ValidateOptions<Schema extends z.ZodType, Outcome> {
  settings: TrainSettings<Schema, Outcome> & { environment: Environment<Schema, Outcome> };
  validation: ValidationOptions<Schema>;
  model: ModelHandle;
  /** Name of the event: `before`, `after`, or `step-N`. */
  name: string;
  directory: RunDirectory;
  emit: RunListener;
}

/** Emits a `phase` event where a further share of the rollouts has ended, the first and the last always. */
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
 * Evaluates the validation set, writes its trajectories to disk and logs them under the split `val`.
 * @throws NoCompletedRolloutsError, and the signal's reason when the run is stopped meanwhile.
 */
export async function validate<Schema extends z.ZodType, Outcome>(
  options: ValidateOptions<Schema, Outcome>,
): Promise<Evaluation<z.output<Schema>>> {
  const { settings, validation, model, name, directory, emit } = options;
  const { environment, concurrency, rolloutTimeoutMs, onUnexpectedCall, seed = 0, signal } = settings;
  const rolloutsPerScenario = validation.rolloutsPerScenario ?? 1;
  const tell = progressTeller(name, emit);
  tell({ done: 0, total: validation.scenarios.length * rolloutsPerScenario });
  const evaluation = await evaluate({
    environment,
    scenarios: validation.scenarios,
    model,
    seed: deriveSeed(seed, validationSeedPath),
    rolloutsPerScenario,
    onProgress: tell,
    temperature: validation.temperature,
    concurrency,
    timeoutMs: rolloutTimeoutMs,
    onUnexpectedCall,
    signal,
  });
  await directory.writeTrajectories(name, evaluation.groups);
  signal?.throwIfAborted();
  if (!evaluation.reward) throw new NoCompletedRolloutsError(`the validation "${name}"`, evaluation.groups);
  const groups = evaluation.groups.map((group) => group.toTrajectoryGroup());
  await logTrajectories({ model, split: 'val', groups, signal });
  emit({
    type: 'evaluated',
    name,
    policy: model.name,
    score: { reward: evaluation.reward.mean, success: evaluation.success?.mean ?? null },
    scenarios: evaluation.perScenario.length,
    examples: evaluation.groups
      .slice(0, exampleCount)
      .flatMap(({ trajectories: [first] }) => (first ? [first.toBody()] : [])),
  });
  return evaluation;
}
