import type { z } from 'zod';
import { RunOptionError } from './errors.ts';
import type { TrainSettings } from './train-options.ts';

/** @throws RunOptionError that names the first option that cannot be met. */
export function checkOptions<Schema extends z.ZodType, Outcome>(
  settings: TrainSettings<Schema, Outcome>,
): void {
  const { scenarios, steps, groupsPerStep, rolloutsPerGroup, keepCheckpoints, validation } = settings;
  const { concurrency, rolloutTimeoutMs, jobTimeoutMs } = settings;
  wholeNumber('steps', steps, 1);
  wholeNumber('groupsPerStep', groupsPerStep, 1);
  wholeNumber('rolloutsPerGroup', rolloutsPerGroup, 2);
  if (concurrency !== undefined) wholeNumber('concurrency', concurrency, 1);
  timeout('rolloutTimeoutMs', rolloutTimeoutMs);
  timeout('jobTimeoutMs', jobTimeoutMs);
  if (keepCheckpoints !== undefined && keepCheckpoints !== 'all')
    wholeNumber('keepCheckpoints', keepCheckpoints, 1);
  if (validation?.everySteps !== undefined) wholeNumber('validation.everySteps', validation.everySteps, 1);
  if (validation?.rolloutsPerScenario !== undefined)
    wholeNumber('validation.rolloutsPerScenario', validation.rolloutsPerScenario, 1);
  if (scenarios.length === 0) throw new RunOptionError('`scenarios` is empty: there is nothing to run.');
  if (validation?.scenarios.length === 0) {
    throw new RunOptionError('`validation.scenarios` is empty. Leave `validation` out to run without one.');
  }
}

/** What a timer can hold; it would fire at once for more. */
const longestTimerMs = 2 ** 31 - 1;

function timeout(name: string, value: number | undefined): void {
  if (value === undefined || (value > 0 && value <= longestTimerMs)) return;
  throw new RunOptionError(
    `\`${name}\` is ${value}; give milliseconds above 0 and up to ${longestTimerMs} (24 days).`,
  );
}

function wholeNumber(name: string, value: number, least: number): void {
  if (!Number.isInteger(value) || value < least) {
    throw new RunOptionError(`\`${name}\` is ${value}; give a whole number of at least ${least}.`);
  }
}
