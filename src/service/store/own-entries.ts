import { readdir } from 'node:fs/promises';
import { hasCode } from '../../util/error.ts';
import { groupPattern } from './group-files.ts';

const uuid = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';

/** The record of a model beside its weights. */
export const modelFile = 'model.json';

/** The path of a checkpoint in the data folder. */
export const checkpointPattern = new RegExp(`^models/${uuid}/checkpoints/step-\\d+(\\.\\w+)?$`);

/** Name patterns of the service's own entries. Everything else in its folders is foreign. */
export const own = {
  models: { isFolder: true, name: new RegExp(`^${uuid}$`) },
  checkpoints: { isFolder: true, name: /^step-\d+(\.\w+)?$/ },
  logs: { isFolder: false, name: /\.jsonl\.gz$/ },
  groups: { isFolder: false, name: groupPattern },
  jobs: { isFolder: false, name: new RegExp(`^${uuid}\\.`) },
  scratch: { isFolder: false, name: new RegExp(`^${uuid}(\\.partial)?$`) },
  uploads: { isFolder: false, name: /^[0-9a-f]{64}\./ },
  incoming: { isFolder: false, name: new RegExp(`^${uuid}$`) },
} as const;

/** Own and foreign names in a folder; none if there is no such folder. */
export async function entriesOf(
  folder: string,
  { isFolder, name }: (typeof own)[keyof typeof own],
): Promise<{ own: string[]; foreign: string[] }> {
  const found = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT', 'ENOTDIR')) return [];
    throw error;
  });
  const isOwn = (entry: (typeof found)[number]) => entry.isDirectory() === isFolder && name.test(entry.name);
  const namesOf = (entries: typeof found) => entries.map((entry) => entry.name);
  return { own: namesOf(found.filter(isOwn)), foreign: namesOf(found.filter((entry) => !isOwn(entry))) };
}
