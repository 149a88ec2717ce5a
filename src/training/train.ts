import { basename } from 'node:path';
import type { z } from 'zod';
import type { ProgressView, RunListener } from '../progress/index.ts';
import { parseScenarios } from '../rollout/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { checkOptions } from './check-options.ts';
import { Run } from './run.ts';
import type { RunDirectory } from './run-directory.ts';
import { describeRun } from './run-origin.ts';
import { openRunDirectory } from './start-run.ts';
import type { TrainOptions, TrainResult, TrainSettings } from './train-options.ts';

/**
 * Trains a model in an environment: each step gathers groups of rollouts from the newest checkpoint, or from one that
 * is at most `maxStaleness` jobs older, logs them, has the service train on them, and goes on from the checkpoint that
 * comes of it. A run that is stopped, or ends early, returns; see `reason`. A run that was killed goes on with
 * `resume`.
 * @throws OptionError, RunOptionError for an option that cannot be met, ScenarioError before anything begins,
 * ResumeError, RunInUseError where another run works in the run directory, NoCompletedRolloutsError when all rollouts of
 * a step end without a reward, TrainingJobError and TrainingJobTimeoutError for a job that makes no checkpoint,
 * StorageError where the run directory cannot be written, and what the client throws. The run directory is left readable
 * in each case, and can be resumed.
 */
export async function train<Schema extends z.ZodType, Outcome>(
  options: TrainOptions<Schema, Outcome>,
): Promise<TrainResult<z.output<Schema>>> {
  checkOptions(options);
  const { environment, scenarios, validation, signal } = options;
  // All of them now: a bad one late in the list would end the run when its turn comes.
  if ('length' in scenarios) await parseScenarios(environment, scenarios);
  if (validation) await parseScenarios(environment, validation.scenarios);
  const view = await viewOf(options);
  let directory: RunDirectory | undefined;
  try {
    const opened = await openRunDirectory(options);
    directory = opened;
    const run = new Run({ ...options, onEvent: watching(options.onEvent, view) }, opened);
    const attributes = {
      [attribute.runId]: basename(opened.path),
      [attribute.environment]: environment.name,
    };
    return await withSpan(spanName.run, attributes, async (span) => {
      try {
        await describeRun(span, await run.start(), options);
        return await run.end(await run.loop());
      } catch (error) {
        if (signal?.aborted) return await run.end({ reason: 'stopped', because: null });
        // Why the run failed matters more than a summary that could not be written.
        await run.fail(error).catch(() => undefined);
        throw error;
      }
    });
  } finally {
    view?.close();
    directory?.release();
  }
}

/** Loaded where it is wanted only. */
async function viewOf({
  progress,
  environment,
}: Pick<TrainSettings<never, unknown>, 'progress'> & { environment: { name: string } }) {
  if (progress === false) return null;
  const { openProgress } = await import('../progress/index.ts');
  return openProgress(progress, { title: `training in ${environment.name}` });
}

/** The view first: a listener that throws is told of below what it heard of. */
function watching(onEvent: RunListener | undefined, view: ProgressView | null): RunListener | undefined {
  if (!view) return onEvent;
  return (event) => {
    view.listen(event);
    return onEvent?.(event);
  };
}
