import { access, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../../util/durable-files.ts';
import { messageOf } from '../../util/error.ts';
import { OptionError } from '../../util/option-error.ts';

export const runOptionError = (option: string, message: string) =>
  new OptionError('invalid_run_option', message, { option });

/** A new path for a run of a recipe. */
export const newRunDirectory = (name: string, seed: number): string =>
  join('runs', `${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}-${name}-seed-${seed}`);

/**
 * Creates the run directory, before any training.
 * @throws OptionError if it is not empty or cannot be created.
 */
export async function createRunDirectory(path: string): Promise<void> {
  const files = await makeFolder(path)
    .then(() => readdir(path))
    .catch((error: unknown) => {
      const reason = messageOf(error);
      throw runOptionError(
        'runDirectory',
        `The run directory ${path} cannot be created: ${reason}. Choose another with --run-directory.`,
      );
    });
  if (files.length > 0)
    throw runOptionError(
      'runDirectory',
      `The run directory ${path} is not empty. Use --resume to continue its run, choose another with ` +
        '--run-directory, or remove it.',
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

/** Whether the directory has a run that `prepareResume` accepts. */
export async function isResumable(path: string, { ownService }: { ownService: boolean }): Promise<boolean> {
  return (await hasTraining(path)) || (ownService && (await isThere(serviceFolder(path))));
}

const isEmpty = (path: string) =>
  readdir(path).then(
    (files) => files.length === 0,
    () => false,
  );

/**
 * Prepares the directory of an interrupted run. Returns true if its training had begun. Otherwise it deletes the
 * models of the run, and the run starts again, also in a directory that is still empty.
 * @throws OptionError if there is no run, or if it can neither continue nor start again.
 */
export async function prepareResume(path: string, { ownService }: { ownService: boolean }): Promise<boolean> {
  if (await hasTraining(path)) return true;
  if (await isEmpty(path)) return false;
  if (!ownService)
    throw runOptionError(
      'runDirectory',
      `The run directory ${path} has no training to continue. Start another run: leave out --resume, and choose ` +
        'another --run-directory.',
    );
  if (!(await isThere(serviceFolder(path))))
    throw runOptionError(
      'runDirectory',
      `The run directory ${path} has no recipe run. Leave out --resume to start one.`,
    );
  // An unfinished job of the warm start would train alongside the new one.
  await rm(serviceFolder(path), { recursive: true });
  return false;
}
