import { basename } from 'node:path';
import type { z } from 'zod';
import { parseScenarios } from '../rollout/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { checkOptions } from './check-options.ts';
import { Run } from './run.ts';
import { defaultRunDirectory, RunDirectory } from './run-directory.ts';
import type { TrainOptions, TrainResult } from './train-options.ts';

/**
 * Trains a model in an environment: each step gathers groups of rollouts from the newest checkpoint, logs them, has
 * the service train on them, and goes on from the checkpoint that comes of it. A stopped run returns; see `reason`.
 * @throws RunOptionError for an option that cannot be met, ScenarioError before anything begins, NoCompletedRolloutsError when all rollouts of a step end
 * without a reward, TrainingJobError and TrainingJobTimeoutError for a job that makes no checkpoint, and what the
 * client throws. The run directory is left readable in each case.
 */
export async function train<Schema extends z.ZodType, Outcome>(
  options: TrainOptions<Schema, Outcome>,
): Promise<TrainResult<z.output<Schema>>> {
  checkOptions(options);
  // All of them now: a bad one late in the list would end the run when its turn comes.
  await parseScenarios(options.environment, options.scenarios);
  if (options.validation) await parseScenarios(options.environment, options.validation.scenarios);
  const begun = performance.now();
  const directory = await RunDirectory.create(
    options.runDirectory ?? defaultRunDirectory(options.environment.name),
  );
  const run = new Run(options, directory);
  return withSpan(spanName.run, { [attribute.runId]: basename(directory.path) }, async () => {
    try {
      await run.start();
      await run.loop();
      return await run.end('finished', begun);
    } catch (error) {
      if (options.signal?.aborted) return run.end('stopped', begun);
      // Why the run failed matters more than a summary that could not be written.
      await run.fail(error, begun).catch(() => undefined);
      throw error;
    }
  });
}
