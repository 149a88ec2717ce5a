import type { z } from 'zod';
import { printableLines } from '../../contract/index.ts';
import { comparisonLines, printLines, showProgress, writeJsonLine } from '../../progress/index.ts';
import { startTimer } from '../../util/deadline.ts';
import { exitAfterFlush, listenForInterrupt } from '../program-end.ts';
import { type Recipe, wholeRecipe } from './definition.ts';
import { readOptions, recipeProgram } from './options.ts';
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
import { openModelOfRun, openService, type RecipeService, reopenModelOfRun } from './service.ts';

/** How long a service may stay silent at the start before the person is told. */
const silenceMs = 5000;

/**
 * Runs a recipe as a program: reads the flags (`--help` lists them), starts a service with the embedded engine unless
 * `--base-url` names one, trains, shows the run, and says at the end what it came to and what goes on with it. Ctrl-C
 * and SIGTERM end it in good order; `--resume` goes on with it. What fails is told on standard error, and the exit
 * status is 1, or 130, 143 or 141 where it was interrupted. It is a program's last act: what an agent has left running
 * does not keep the process.
 *
 * @example
 * await runRecipe({
 *   name: 'crossing',
 *   environment: crossing,
 *   scenarios: [{ light: 'red' }, { light: 'amber' }, { light: 'green' }],
 *   defaults: { steps: 40 },
 * });
 *
 * @param argv As `process.argv`: the flags begin at the third.
 * @throws OptionError for an unknown option, and for a `name` that no project may have.
 */
export async function runRecipe<Schema extends z.ZodType, Outcome>(
  given: Recipe<Schema, Outcome>,
  argv: readonly string[] = process.argv,
): Promise<void> {
  const recipe = wholeRecipe(given, { argv, execArgv: process.execArgv, env: process.env });
  const options = readOptions(argv, recipeProgram(recipe));
  const startedMs = performance.now();
  const runDirectory = options.runDirectory ?? newRunDirectory(recipe.name, options.seed);
  const ownService = options.baseUrl === undefined;
  const progress = showProgress({ json: options.json, title: recipe.name });
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
    const { seed, baseModel, ifExists, baseUrl } = options;
    // The client repeats a call for minutes while the service is away: silence would look like a hang.
    const silence = startTimer(silenceMs, () => {
      if (baseUrl !== undefined)
        progress.note(`No answer from ${baseUrl} yet. Calls are repeated; Ctrl-C stops.`);
    });
    const open = resume ? reopenModelOfRun : openModelOfRun;
    const model = await open({ name, seed, baseModel, ifExists, service, runDirectory, signal }).finally(
      silence.clear,
    );
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
    exitAfterFlush();
  }
}
