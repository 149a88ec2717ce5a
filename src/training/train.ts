import { basename } from 'node:path';
import type { z } from 'zod';
import { withoutStep } from '../contract/index.ts';
import { parseScenarios } from '../rollout/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { asThrownBy } from '../util/error.ts';
import { checkOptions } from './check-options.ts';
import { Run } from './run.ts';
import { openView } from './run-events.ts';
import { openRunDirectory } from './start-run.ts';
import type { TrainOptions, TrainResult } from './train-options.ts';

/**
 * Trains a model in an environment. Each step runs groups of rollouts with the newest checkpoint, or one at most
 * `maxStaleness` jobs older, logs them, and runs a training job, whose checkpoint the next steps use. A run that is
 * stopped or ends early returns normally; see `reason`. Use `resume` to continue a run that was killed.
 * @throws OptionError and ScenarioError before anything starts; RunError if the run directory cannot be used, resumed
 * or written; TrainingError if no rollout of a step completes or a job makes no checkpoint; errors of the client. The
 * run directory always stays readable and can be resumed. A run that fails before its model is open leaves no
 * directory.
 */
export async function train<Schema extends z.ZodType, Outcome>(
  options: TrainOptions<Schema, Outcome>,
): Promise<TrainResult<z.output<Schema>>> {
  try {
    return await runTraining(options);
  } catch (error) {
    throw asThrownBy(train, error);
  }
}

async function runTraining<Schema extends z.ZodType, Outcome>(
  options: TrainOptions<Schema, Outcome>,
): Promise<TrainResult<z.output<Schema>>> {
  const rollouts = checkOptions(options);
  const { environment, scenarios, validation, signal } = options;
  // All scenarios are checked now, so that an invalid one does not end the run later.
  if ('length' in scenarios) await parseScenarios(environment, scenarios);
  if (validation) await parseScenarios(environment, validation.scenarios);
  using view = await openView(options.progress, `training in ${environment.name}`, options.onEvent);
  const directory = await openRunDirectory(options);
  try {
    const run = new Run(options, { rollouts, directory, listener: view.listener });
    const attributes = {
      [attribute.runId]: basename(directory.path),
      [attribute.environment]: environment.name,
    };
    return await withSpan(spanName.run, attributes, async (span) => {
      try {
        const { model, baseModel } = await run.start();
        span.setAttribute(attribute.modelName, withoutStep(model.name));
        if (model.id !== undefined) span.setAttribute(attribute.modelId, model.id);
        if (baseModel !== null) span.setAttribute(attribute.baseModel, baseModel);
        return await run.end(await run.loop());
      } catch (error) {
        if (signal?.aborted) return await run.end({ reason: 'stopped', because: null });
        // The original error matters more than a summary that could not be written.
        await run.fail(error).catch(() => undefined);
        throw error;
      }
    });
  } finally {
    directory.release();
  }
}
