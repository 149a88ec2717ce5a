import { printableLines } from '../../contract/index.ts';
import type { ModelHandle } from '../../model/index.ts';
import {
  comparisonLines,
  printLines,
  type RunListener,
  showProgress,
  writeJsonLine,
} from '../../progress/index.ts';
import type { TrainResult } from '../../training/index.ts';
import { listenForInterrupt } from '../interrupt.ts';
import { leaveBehind } from '../leave-behind.ts';
import { openModelOfRun, reopenModelOfRun } from './model.ts';
import { type RecipeOptions, readOptions, recipeProgram } from './options.ts';
import {
  comparisonOf,
  cutText,
  endedText,
  failedText,
  stoppedText,
  stoppingText,
  summaryOf,
} from './outcome.ts';
import {
  claimRunDirectory,
  isResumable,
  newRunDirectory,
  takeUpRunDirectory,
  trainingFolder,
} from './run-directory.ts';
import { openService, type RecipeService } from './service.ts';

export interface Recipe {
  /** Names the project on the service and the run directory. */
  name: string;
  /** What a person types to run it. */
  command: string;
  /** First line of `--help`. */
  description: string;
  defaults: { steps: number; groups: number; rolloutsPerGroup: number };
  /** What a person types to use the trained agent, before `--model <name>`; absent where there is no such program. */
  talkCommand?: string;
  learn: (run: RecipeRun) => Promise<TrainResult>;
}

/** What a recipe's `learn` is given; `settings` go to `train` as they are. */
export interface RecipeRun {
  options: RecipeOptions;
  /** Newly made from the base model, unless the service of `--base-url` knew it. */
  model: ModelHandle;
  settings: {
    steps: number;
    groupsPerStep: number;
    rolloutsPerGroup: number;
    seed: number;
    runDirectory: string;
    /** The run goes on: what `learn` does before `train` is done. */
    resume: boolean;
    onEvent: RunListener;
    /** The recipe shows the run itself. */
    progress: false;
    signal: AbortSignal;
  };
}

/**
 * Reads the flags, starts the service where none is given, lets the recipe learn, and shows what came of it. It is a
 * program's last act: what an agent has left running does not keep the process.
 */
export async function runRecipe(recipe: Recipe, argv: readonly string[] = process.argv): Promise<void> {
  const options = readOptions(argv, recipeProgram(recipe));
  const startedMs = performance.now();
  const runDirectory = options.runDirectory ?? newRunDirectory(recipe.name, options.seed);
  const ownService = options.baseUrl === undefined;
  const progress = showProgress({ json: options.json });
  const interrupt = listenForInterrupt({
    limitMs: options.stopWithin * 1000,
    output: process.stdout,
    onFirst: (reason) => {
      const note = stoppingText(options, reason);
      if (reason === 'output_closed') process.stderr.write(`${note}\n`);
      else progress.note(note);
    },
    onCut: (because) => {
      process.stderr.write(`${cutText({ recipe, options, runDirectory }, because)}\n`);
    },
  });
  const { signal } = interrupt;
  let service: RecipeService | undefined;
  let isClaimed = false;
  try {
    const resume = options.resume === true && (await takeUpRunDirectory(runDirectory, { ownService }));
    if (!options.resume) await claimRunDirectory(runDirectory);
    isClaimed = true;
    service = await openService(options, runDirectory);
    const { name } = recipe;
    const { seed, baseModel } = options;
    const model = await (resume ? reopenModelOfRun : openModelOfRun)({
      ...{ name, seed, baseModel, service, runDirectory, signal },
    });
    const result = await recipe.learn({
      options,
      model,
      settings: {
        steps: options.steps,
        groupsPerStep: options.groups,
        rolloutsPerGroup: options.rolloutsPerGroup,
        seed: options.seed,
        runDirectory: trainingFolder(runDirectory),
        resume,
        onEvent: progress.listen,
        progress: false,
        signal,
      },
    });
    progress.close();
    const finished = { recipe, result, options, runDirectory, dataFolder: service.dataFolder };
    const comparison = comparisonOf(finished);
    if (options.json)
      writeJsonLine(process.stdout, summaryOf(finished, (performance.now() - startedMs) / 1000));
    else if (comparison) printLines([[], ...comparisonLines(comparison, process.stdout.columns || 100)]);
    else process.stdout.write(`${printableLines(endedText({ recipe, options, runDirectory }, result))}\n`);
    if (result.reason === 'stopped') process.exitCode = interrupt.status ?? 1;
  } catch (error) {
    progress.close();
    const asked = { recipe, options, runDirectory };
    const goesOn = isClaimed && (await isResumable(runDirectory, { ownService }));
    const what = signal.aborted ? stoppedText(asked, 0) : failedText(asked, error, goesOn);
    process.stderr.write(`${what}\n`);
    process.exitCode = interrupt.status ?? 1;
  } finally {
    await service?.close();
    interrupt.release();
    leaveBehind();
  }
}
