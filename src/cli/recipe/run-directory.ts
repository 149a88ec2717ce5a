import { access, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../../util/durable-files.ts';
import { OptionError } from '../../util/option-error.ts';

export const runOptionError = (option: string, message: string) =>
  new OptionError('invalid_run_option', message, { option });

/** A new path for the run of a recipe. */
export const newRunDirectory = (name: string, seed: number): string =>
  join('runs', `${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}-${name}-seed-${seed}`);

/**
 * Makes the folder, before anything is trained that could not be kept.
 * @throws OptionError where it holds something already, or cannot be made.
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

/** Where the training of a recipe's run is written. */
export const trainingFolder = (path: string): string => join(path, 'training');

/** Where a recipe's own service keeps its models. */
export const serviceFolder = (path: string): string => join(path, 'service');

const isThere = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );

const hasTraining = (path: string) => isThere(join(trainingFolder(path), 'config.json'));

/** Whether the folder of a run that was claimed holds something that `takeUpRunDirectory` takes up. */
export async function isResumable(path: string, { ownService }: { ownService: boolean }): Promise<boolean> {
  return (await hasTraining(path)) || (ownService && (await isThere(serviceFolder(path))));
}

/**
 * Gets the folder of an interrupted run ready to go on. Says whether its training had begun, and whatever comes before
 * it was done; where it had not, nothing of the run is kept, and it begins again.
 * @throws OptionError where there is no run, or where it cannot begin again.
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
  // A job of the start may be half done, or queued: it would train beside that of the start that comes now.
  await rm(serviceFolder(path), { recursive: true });
  return false;
}
