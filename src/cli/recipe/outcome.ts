import { MartingaleError } from '../../contract/index.ts';
import type { Evaluation } from '../../evaluation/index.ts';
import type { Comparison, Evaluated, NextCommand } from '../../progress/index.ts';
import type { TrainResult } from '../../training/index.ts';
import { shortPath } from '../../util/complaint.ts';
import type { InterruptReason } from '../program-end.ts';
import { describeFailure } from '../program-end.ts';
import type { WholeRecipe } from './definition.ts';
import type { RecipeOptions } from './options.ts';

interface Finished {
  recipe: Pick<WholeRecipe, 'command' | 'defaults' | 'talkCommand'>;
  result: TrainResult;
  options: RecipeOptions;
  runDirectory: string;
  /** Data folder of the run's own service; null with `--base-url`. */
  dataFolder: string | null;
}

const scoreOf = ({ reward, success }: Evaluation<unknown>) => ({
  reward: reward?.mean ?? 0,
  success: success?.mean ?? null,
});

const failedOf = ({ counts }: Evaluation<unknown>) => counts.failed + counts.cancelled;

const evaluated = (evaluation: Evaluation<unknown>): Evaluated => ({
  policy: evaluation.policy,
  score: scoreOf(evaluation),
  scenarios: evaluation.perScenario.length,
  scored: evaluation.reward?.count ?? 0,
  failed: failedOf(evaluation),
  examples: evaluation.groups.flatMap((group) => group.trajectories.map((trajectory) => trajectory.toBody())),
});

type Asked = Pick<Finished, 'recipe' | 'options'>;

/** The flags that a similar run needs again: `there` for the service, `same` for the rest. */
function sameFlags({ recipe, options }: Asked): { same: string; there: string } {
  const { groups, rolloutsPerGroup, baseUrl, apiKey, baseModel, threads, ifExists } = options;
  // Never show the key. A key from the environment needs no flag.
  const key = process.env.MARTINGALE_API_KEY === apiKey ? '' : ' --api-key "$KEY"';
  const there = baseUrl === undefined ? '' : ` --base-url ${baseUrl}${key}`;
  const flag = (name: string, value: string | number | undefined, usual?: string | number) =>
    value === usual ? '' : ` --${name} ${value}`;
  const same = [
    flag('groups', groups, recipe.defaults.groups),
    flag('rollouts-per-group', rolloutsPerGroup, recipe.defaults.rolloutsPerGroup),
    flag('threads', threads),
    flag('base-model', baseModel, recipe.defaults.baseModel),
    flag('if-exists', ifExists, 'continue'),
  ].join('');
  return { same, there };
}

/** The command that continues a run. */
export function resumeCommand(asked: Asked & { runDirectory: string }): string {
  const { seed, steps } = asked.options;
  const { same, there } = sameFlags(asked);
  const where = `--run-directory ${shellWord(shortPath(asked.runDirectory))}`;
  return `${asked.recipe.command} --seed ${seed} --steps ${steps}${same}${there} ${where} --resume`;
}

const shellWord = (text: string) => (/^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** In the repository the `martingale` command is not installed. */
const serveCommand = import.meta.url.endsWith('.ts') ? 'npm run martingale -- serve' : 'npx martingale serve';

/** Commands to try after a run. */
export function nextCommands({ recipe, result, options, dataFolder }: Finished): NextCommand[] {
  const { seed, steps } = options;
  const { same, there } = sameFlags({ recipe, options });
  const again = (newSeed: number, newSteps: number) =>
    `${recipe.command} --seed ${newSeed} --steps ${newSteps}${same}${there}`;
  const { talkCommand } = recipe;
  const talk = `${talkCommand} --model ${shellWord(result.model.name.replace(/:step\d+$/, ''))}`;
  const ownKey = 'MARTINGALE_API_KEY=mine ';
  const goOn = [
    { what: 'More steps:', command: again(seed, 2 * steps) },
    { what: 'Another seed:', command: again(seed + 1, steps) },
  ];
  if (dataFolder === null) {
    if (talkCommand === undefined) return goOn;
    return [...goOn, { what: 'Talk to the trained agent:', command: `${talk}${there}` }];
  }
  return [
    ...goOn,
    {
      what: 'Serve the trained model:',
      command: `${ownKey}${serveCommand} --data ${shellWord(shortPath(dataFolder))}`,
    },
    ...(talkCommand === undefined
      ? []
      : [{ what: 'and, in another terminal, talk to the agent:', command: `${ownKey}${talk}` }]),
  ];
}

/** The comparison shown at the end; null without both evaluations. */
export function comparisonOf(finished: Finished): Comparison | null {
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
export function stoppedText(asked: Asked & { runDirectory: string }, steps: number): string {
  const after =
    steps === 0 ? 'before its first step was done' : `after ${steps} step${steps === 1 ? '' : 's'}`;
  return `Stopped ${after}. Go on with it:\n  ${resumeCommand(asked)}`;
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
 * @param isResumable Whether the run directory holds a run that can continue.
 */
export function failedText(
  asked: Asked & { runDirectory: string },
  error: unknown,
  isResumable: boolean,
): string {
  const why = describeFailure(error);
  if (!isResumable || (MartingaleError.isInstance(error) && refusals.has(error.code))) return why;
  return `${why}\nOnce that is mended, go on with the run:\n  ${resumeCommand(asked)}`;
}

/** The text at the first interrupt. */
export function stoppingText({ stopWithin }: RecipeOptions, reason: InterruptReason): string {
  if (reason === 'output_closed')
    return `Nobody reads the output any more. Stopping, within ${stopWithin} s; --resume goes on.`;
  return `Stopping, within ${stopWithin} s. Ctrl-C again leaves at once. Either way, --resume goes on.`;
}

/** The text before an early exit. */
export function cutText(asked: Asked & { runDirectory: string }, because: 'limit' | 'again'): string {
  const why =
    because === 'limit' ? `Not everything had ended within ${asked.options.stopWithin} s` : 'Left at once';
  return `${why}. Go on from what is on disk:\n  ${resumeCommand(asked)}`;
}

/** The text at the end of a run without a comparison. */
export function endedText(
  asked: Asked & { runDirectory: string },
  { reason, because, reports }: Pick<TrainResult, 'reason' | 'because' | 'reports'>,
): string {
  if (reason === 'stopped') return stoppedText(asked, reports.length);
  const why = because === null ? '' : `: ${because}`;
  return `Ended after ${reports.length} step${reports.length === 1 ? '' : 's'}${why}. What there is of the run: ${shortPath(asked.runDirectory)}`;
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
