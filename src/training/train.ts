import { basename } from 'node:path';
import type { z } from 'zod';
import { parseScenarios } from '../rollout/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { checkOptions } from './check-options.ts';
import { Run } from './run.ts';
import type { RunDirectory } from './run-directory.ts';
import { openView } from './run-events.ts';
import { describeRun } from './run-origin.ts';
import { openRunDirectory } from './start-run.ts';
import type { TrainOptions, TrainResult } from './train-options.ts';

/**
 * Trains a model in an environment: each step gathers groups of rollouts from the newest checkpoint, or from one that
 * is at most `maxStaleness` jobs older, logs them, has the service train on them, and goes on from the checkpoint that
 * comes of it. A run that is stopped, or ends early, returns; see `reason`. A run that was killed goes on with
 * `resume`.
 * @throws OptionError and ScenarioError before anything begins; RunError where the run directory cannot be used, resumed
 * or written; TrainingError when all rollouts of a step end without a reward, and for a job that makes no checkpoint; and
 * what the client throws. The run directory stays readable in each case, and can be resumed; a run that fails before it
 * has its model leaves none.
 */
export async function train<Schema extends z.ZodType, Outcome>(
  options: TrainOptions<Schema, Outcome>,
): Promise<TrainResult<z.output<Schema>>> {
  checkOptions(options);
  const { environment, scenarios, validation, signal } = options;
  // All of them now: a bad one late in the list would end the run when its turn comes.
  if ('length' in scenarios) await parseScenarios(environment, scenarios);
  if (validation) await parseScenarios(environment, validation.scenarios);
  const view = await openView(options.progress, `training in ${environment.name}`, options.onEvent);
  let directory: RunDirectory | undefined;
  try {
    const opened = await openRunDirectory(options);
    directory = opened;
    const run = new Run({ ...options, onEvent: view.listener }, opened);
    const attributes = {
      [attribute.runId]: basename(opened.path),
      [attribute.environment]: environment.name,
    };
    return await withSpan(spanName.run, attributes, async (span) => {
      try {
        const { model, baseModel } = await run.start();
        describeRun(span, model, baseModel);
        return await run.end(await run.loop());
      } catch (error) {
        if (signal?.aborted) return await run.end({ reason: 'stopped', because: null });
        // Why the run failed matters more than a summary that could not be written.
        await run.fail(error).catch(() => undefined);
        throw error;
      }
    });
  } finally {
    view.close();
    directory?.release();
  }
}
