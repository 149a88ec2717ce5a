import { access, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../../util/durable-files.ts';
import { OptionError } from '../../util/option-error.ts';

export const runOptionError = (option: string, message: string) =>
  new OptionError('invalid_run_option', message, { option });

/** A new path for a run of a recipe. */
export const newRunDirectory = (name: string, seed: number): string =>
  join('runs', `${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}-${name}-seed-${seed}`);

/**
 * Makes the run directory, before any training.
 * @throws OptionError if it is not empty or cannot be made.
 */
export async function claimRunDirectory(path: string): Promise<void> {
  const files = await makeFolder(path)
    .then(() => readdir(path))
    .catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : String(error);
      throw runOptionError(
        'runDirectory',
        `The run directory ${path} cannot be made: ${reason}. Choose another with --run-directory.`,
      );
    });
  if (files.length > 0)
    throw runOptionError(
      'runDirectory',
      `The run directory ${path} is not empty. Go on with the run in it with --resume, choose another with ` +
        '--run-directory, or move it away.',
    );
}

/** Folder for the run directory of `train`. */
export const trainingFolder = (path: string): string => join(path, 'training');

/** Data folder of a recipe's own service. */
export const serviceFolder = (path: string): string => join(path, 'service');

const isThere = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );

const hasTraining = (path: string) => isThere(join(trainingFolder(path), 'config.json'));

/** Whether `takeUpRunDirectory` accepts the directory of a claimed run. */
export async function isResumable(path: string, { ownService }: { ownService: boolean }): Promise<boolean> {
  return (await hasTraining(path)) || (ownService && (await isThere(serviceFolder(path))));
}

/**
 * Prepares the directory of an interrupted run. Returns true if its training had begun. Otherwise it deletes the
 * models of the run, and the run starts again.
 * @throws OptionError if there is no run, or if it can neither continue nor start again.
 */
export async function takeUpRunDirectory(
  path: string,
  { ownService }: { ownService: boolean },
): Promise<boolean> {
  if (await hasTraining(path)) return true;
  if (!ownService)
    throw runOptionError(
      'runDirectory',
      `The run directory ${path} has no training to go on with. Begin another run: leave --resume out, and choose ` +
        'another --run-directory.',
    );
  if (!(await isThere(serviceFolder(path))))
    throw runOptionError(
      'runDirectory',
      `The run directory ${path} does not hold the run of a recipe. Leave --resume out to begin one.`,
    );
  // An unfinished job of the warm start would train beside the new one.
  await rm(serviceFolder(path), { recursive: true });
  return false;
}
