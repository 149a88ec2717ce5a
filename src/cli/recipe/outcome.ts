import { join } from 'node:path';
import { MartingaleError } from '../../contract/index.ts';
import type { Evaluation } from '../../evaluation/index.ts';
import { type BeforeAfter, counted, type EvaluatedModel, type NextCommand } from '../../progress/index.ts';
import type { TrainResult } from '../../training/index.ts';
import { shortPath } from '../../util/show-value.ts';
import { checkpointArguments } from '../checkpoint-flags.ts';
import { shellWord } from '../flags.ts';
import { describeFailure, type InterruptReason } from '../program-end.ts';
import type { ResolvedRecipe } from './definition.ts';
import type { RecipeOptions } from './options.ts';
import { trainingFolder } from './run-directory.ts';

/** A run as its commands and texts need it. */
interface RunContext {
  recipe: Pick<ResolvedRecipe, 'command' | 'defaults' | 'talkCommand'>;
  options: RecipeOptions;
  runDirectory: string;
}

interface Finished extends RunContext {
  result: TrainResult;
  /** Data folder of the run's own service; null with `--base-url`. */
  dataFolder: string | null;
}

const scoreOf = ({ reward, success }: Evaluation<unknown>) => ({
  reward: reward?.mean ?? 0,
  success: success?.mean ?? null,
});

const evaluated = (evaluation: Evaluation<unknown>): EvaluatedModel => ({
  policy: evaluation.policy,
  score: scoreOf(evaluation),
  scenarios: evaluation.perScenario.length,
  scored: evaluation.reward?.count ?? 0,
  failed: evaluation.counts.failed + evaluation.counts.cancelled,
  examples: evaluation.groups.flatMap((group) => group.trajectories.map((trajectory) => trajectory.toBody())),
});

/** The flags that a similar run needs again. */
function repeatedFlags({ recipe, options }: RunContext): { runFlags: string; serviceFlags: string } {
  const { groups, rolloutsPerGroup, learningRate, baseUrl, apiKey, baseModel, threads, ifExists } = options;
  // Never show the key. A key from the environment needs no flag.
  const key = process.env.MARTINGALE_API_KEY === apiKey ? '' : ' --api-key "$KEY"';
  const flag = (name: string, value: string | number | undefined, usual?: string | number) =>
    value === usual ? '' : ` --${name} ${value}`;
  const runFlags = [
    flag('groups', groups, recipe.defaults.groups),
    flag('rollouts-per-group', rolloutsPerGroup, recipe.defaults.rolloutsPerGroup),
    flag('learning-rate', learningRate),
    flag('threads', threads),
    flag('base-model', baseModel),
    checkpointArguments(options),
    flag('if-exists', ifExists, 'continue'),
  ].join('');
  return { runFlags, serviceFlags: baseUrl === undefined ? '' : ` --base-url ${baseUrl}${key}` };
}

function trainCommand(run: RunContext, { seed, steps }: { seed: number; steps: number }): string {
  const { runFlags, serviceFlags } = repeatedFlags(run);
  return `${run.recipe.command} --seed ${seed} --steps ${steps}${runFlags}${serviceFlags}`;
}

/** The command that continues a run. */
const resumeCommand = (run: RunContext): string =>
  `${trainCommand(run, run.options)} --run-directory ${shellWord(shortPath(run.runDirectory))} --resume`;

/** In the repository the `martingale` command is not installed. */
const ownCommand = import.meta.url.endsWith('.ts') ? 'npm run martingale --' : 'npx martingale';

/** Commands to try after a run. */
export function nextCommands(finished: Finished): NextCommand[] {
  const { recipe, result, options, dataFolder } = finished;
  const { seed, steps } = options;
  const isUnlearned =
    result.reports.length > 0 && result.reports.every(({ groupsWithSignal }) => groupsWithSignal === 0);
  const trajectories = join(trainingFolder(finished.runDirectory), 'trajectories');
  const commands = [
    ...(isUnlearned
      ? [
          {
            what: 'Nothing was learned, because in every group all rewards were equal. What the model said:',
            command: shortPath(trajectories),
          },
        ]
      : []),
    { what: 'More steps:', command: trainCommand(finished, { seed, steps: 2 * steps }) },
    { what: 'Another seed:', command: trainCommand(finished, { seed: seed + 1, steps }) },
  ];
  const { talkCommand } = recipe;
  const talk = `${talkCommand} --model ${shellWord(result.model.name.replace(/:step\d+$/, ''))}`;
  const ownKey = 'MARTINGALE_API_KEY=mine ';
  if (dataFolder !== null)
    commands.push({
      what: 'Serve the trained model:',
      command: `${ownKey}${ownCommand} serve --data ${shellWord(shortPath(dataFolder))}${checkpointArguments(options)}`,
    });
  if (talkCommand !== undefined)
    commands.push(
      dataFolder === null
        ? { what: 'Talk to the trained agent:', command: talk + repeatedFlags(finished).serviceFlags }
        : { what: 'and, in another terminal, talk to the agent:', command: ownKey + talk },
    );
  const shown = shellWord(shortPath(finished.runDirectory));
  return [...commands, { what: 'See the run in a browser:', command: `${ownCommand} view ${shown}` }];
}

/** The comparison shown at the end; null without both evaluations. */
export function comparisonOf(finished: Finished): BeforeAfter | null {
  const { before, after } = finished.result.validation;
  if (before === null || after === null) return null;
  return {
    before: evaluated(before),
    after: evaluated(after),
    runDirectory: finished.runDirectory,
    next: nextCommands(finished),
  };
}

/** The text after an interrupted run, with the command that continues it. */
export function stoppedText(run: RunContext, steps: number): string {
  const when = steps === 0 ? 'before its first step was done' : `after ${counted(steps, 'step')}`;
  return `Stopped ${when}. Continue with:\n  ${resumeCommand(run)}`;
}

/** Codes of refusals. Their message has the remedy; the resume command would be refused again. */
const refusals = new Set([
  'base_model_mismatch',
  'data_folder_in_use',
  'invalid_run_option',
  'model_exists',
  'resume_refused',
  'run_in_use',
  'unknown_option',
]);

/**
 * The text after a failed run: the error, and the command that continues the run.
 * @param canResume Whether the run directory holds a run that can continue.
 */
export function failedText(run: RunContext, error: unknown, canResume: boolean): string {
  const why = describeFailure(error);
  if (!canResume || (MartingaleError.isInstance(error) && refusals.has(error.code))) return why;
  return `${why}\nAfter fixing this, continue the run:\n  ${resumeCommand(run)}`;
}

/** The text at the first interrupt. */
export function stoppingText({ stopWithin }: RecipeOptions, reason: InterruptReason): string {
  if (reason === 'output_closed')
    return `The output was closed. Stopping within ${stopWithin} s; --resume continues the run.`;
  return `Stopping within ${stopWithin} s. Press Ctrl-C again to exit at once. In both cases --resume continues the run.`;
}

/** The text before an early exit. */
export function earlyExitText(run: RunContext, because: 'limit' | 'again'): string {
  const why =
    because === 'limit' ? `Some work did not end within ${run.options.stopWithin} s` : 'Exited at once';
  return `${why}. Continue from the data on disk:\n  ${resumeCommand(run)}`;
}

/** The text at the end of a run without a comparison. */
export function endedText(
  run: RunContext,
  { reason, because, reports }: Pick<TrainResult, 'reason' | 'because' | 'reports'>,
): string {
  if (reason === 'stopped') return stoppedText(run, reports.length);
  const why = because === null ? '' : `: ${because}`;
  return `Ended after ${counted(reports.length, 'step')}${why}. Its record: ${shortPath(run.runDirectory)}`;
}

/** The last line of `--json`. */
export function summaryOf({ result, options, runDirectory }: Finished, seconds: number): object {
  const { before, after } = result.validation;
  return {
    type: 'summary',
    reason: result.reason,
    because: result.because,
    seed: options.seed,
    steps: result.reports.length,
    evaluation: { before: before && scoreOf(before), after: after && scoreOf(after) },
    counts: result.counts,
    model: result.model.name,
    seconds,
    trainingSeconds: result.seconds,
    runDirectory,
  };
}
