import type { z } from 'zod';
import { printableLines } from '../../contract/index.ts';
import { openProgress, printBeforeAfter, writeJsonLine } from '../../progress/index.ts';
import { exitAfterFlush, listenForInterrupt } from '../program-end.ts';
import { type Recipe, resolveRecipe } from './definition.ts';
import { readOptions, recipeProgram } from './options.ts';
import {
  comparisonOf,
  earlyExitText,
  endedText,
  failedText,
  stoppedText,
  stoppingText,
  summaryOf,
} from './outcome.ts';
import {
  createRunDirectory,
  isResumable,
  newRunDirectory,
  prepareResume,
  trainingFolder,
} from './run-directory.ts';
import { openModelOfRun, openService, type RecipeService, reopenModelOfRun } from './service.ts';

/**
 * Runs a recipe as a program. It reads the flags (`--help` lists them), starts a service with the embedded engine unless
 * `--base-url` names one, trains, shows the run, and ends with the results and the next commands. Ctrl-C and SIGTERM
 * stop the run in order; `--resume` continues it. Errors go to standard error; the exit status is then 1, and after an
 * interrupt 130, 143 or 141. Call it last: afterwards the process exits, whatever an agent has left running.
 *
 * @example
 * await runRecipe({
 *   name: 'crossing',
 *   environment: crossing,
 *   scenarios: [{ light: 'red' }, { light: 'amber' }, { light: 'green' }],
 *   defaults: { steps: 40 },
 * });
 *
 * @param argv As `process.argv`: the flags start at index 2.
 * @throws OptionError for an unknown option, an invalid `name`, and for both `environment` and `learn`.
 */
export async function runRecipe<Schema extends z.ZodType, Outcome>(
  definition: Recipe<Schema, Outcome>,
  argv: readonly string[] = process.argv,
): Promise<void> {
  const recipe = resolveRecipe(definition, { argv, execArgv: process.execArgv, env: process.env });
  const options = readOptions(argv, recipeProgram(recipe));
  const startedMs = performance.now();
  const runDirectory = options.runDirectory ?? newRunDirectory(recipe.name, options.seed);
  const run = { recipe, options, runDirectory };
  const ownService = options.baseUrl === undefined;
  const progress = openProgress(options.json ? 'json' : true, {
    title: recipe.name,
    terminal: options.json ? process.stderr : process.stdout,
  });
  const interrupt = listenForInterrupt({
    limitMs: options.stopWithin * 1000,
    output: process.stdout,
    onFirst: (reason) => {
      const note = stoppingText(options, reason);
      if (reason === 'output_closed') process.stderr.write(`${note}\n`);
      else progress.note(note);
    },
    onEarlyExit: (because) => {
      process.stderr.write(`${earlyExitText(run, because)}\n`);
    },
  });
  const { signal } = interrupt;
  let service: RecipeService | undefined;
  let isPrepared = false;
  try {
    const resume = options.resume === true && (await prepareResume(runDirectory, { ownService }));
    if (!options.resume) await createRunDirectory(runDirectory);
    isPrepared = true;
    const defaultBaseModel = recipe.defaults.baseModel;
    service = await openService({ options, runDirectory, defaultBaseModel, note: progress.note, signal });
    for (const line of service.opened) progress.note(line);
    const { name } = recipe;
    const { seed, ifExists } = options;
    const open = resume ? reopenModelOfRun : openModelOfRun;
    const model = await open({ name, seed, ifExists, service, runDirectory, signal });
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
    const finished = { ...run, result, dataFolder: service.dataFolder };
    const comparison = comparisonOf(finished);
    if (options.json)
      writeJsonLine(process.stdout, summaryOf(finished, (performance.now() - startedMs) / 1000));
    else if (comparison) printBeforeAfter(comparison);
    else process.stdout.write(`${printableLines(endedText(run, result))}\n`);
    if (result.reason === 'stopped') process.exitCode = interrupt.status ?? 1;
  } catch (error) {
    progress.close();
    const canResume = isPrepared && (await isResumable(runDirectory, { ownService }));
    const text = signal.aborted ? stoppedText(run, 0) : failedText(run, error, canResume);
    process.stderr.write(`${text}\n`);
    process.exitCode = interrupt.status ?? 1;
  } finally {
    await service?.close();
    interrupt.release();
    exitAfterFlush();
  }
}
