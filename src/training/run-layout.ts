import { join } from 'node:path';
import { lockFile } from './run-lock.ts';

/** Default place of a run: `runs/<ISO date>-<name>`, with characters that every file system takes. */
export function defaultRunDirectory(name: string, now = new Date()): string {
  const date = now.toISOString().replaceAll(':', '-');
  return join('runs', `${date}-${name.replaceAll(/[^A-Za-z0-9._-]+/g, '-')}`);
}

/** What a run has that was killed, or failed, before it had a model. */
const begun = new Set([
  ...['trajectories', 'jobs', 'config.json.partial', 'events.jsonl', 'summary.json'],
  ...[lockFile, `${lockFile}-journal`],
]);

/** Whether a folder with these names in it holds a run. */
export const isRun = (names: readonly string[]) =>
  names.includes('config.json') || names.every((name) => begun.has(name));

/** `step-0000`: names sort as steps do. */
export function stepName(step: number): string {
  return `step-${String(step).padStart(4, '0')}`;
}

export const jobFile = (step: number) => `jobs/${stepName(step)}.json`;
export const warmStartFile = 'jobs/warm-start.json';
export const loggingFile = (name: string) => `logged/${name}.json`;
