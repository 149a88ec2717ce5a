import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { RunOptionError } from 'martingale';

/** A new place for the run of a recipe. */
export const newRunDirectory = (name: string, seed: number): string =>
  join('runs', `${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}-${name}-seed-${seed}`);

/**
 * Makes the folder, before anything is trained that could not be kept.
 * @throws RunOptionError where it holds something already, or cannot be made.
 */
export async function claimRunDirectory(path: string): Promise<void> {
  const files = await mkdir(path, { recursive: true })
    .then(() => readdir(path))
    .catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : String(error);
      throw new RunOptionError(
        `The run directory ${path} cannot be made: ${reason}. Choose another with --run-directory.`,
      );
    });
  if (files.length > 0)
    throw new RunOptionError(
      `The run directory ${path} is not empty. Choose another with --run-directory, or move it away.`,
    );
}
