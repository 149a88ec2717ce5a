import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { optimizationFile } from '../optimization/index.ts';
import { isRunActive } from '../training/index.ts';

const files = ['config.json', 'metrics.jsonl', 'events.jsonl', optimizationFile, 'summary.json'];

/** A text that is another one once the files of a run have changed. */
export async function runSignature(folder: string): Promise<string> {
  const isActive = isRunActive(folder);
  const trajectories = join(folder, 'trajectories');
  // Steps that have ended change no more: only their list does. An active run adds groups to journals.
  const journals = isActive
    ? (await readdir(trajectories).catch(() => [])).filter((name) => name.endsWith('.journal.jsonl'))
    : [];
  const paths = [
    ...files.map((file) => join(folder, file)),
    trajectories,
    ...journals.map((name) => join(trajectories, name)),
  ];
  const parts = await Promise.all(
    paths.map(async (path) => {
      const found = await stat(path).catch(() => null);
      return found ? `${found.size}:${found.mtimeMs}` : '-';
    }),
  );
  return [isActive, ...parts].join(' ');
}
