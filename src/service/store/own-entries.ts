import { readdir } from 'node:fs/promises';

const uuid = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';

/** What the service puts into its folders. Anything else there belongs to somebody else. */
export const own = {
  models: { isFolder: true, name: new RegExp(`^${uuid}$`) },
  checkpoints: { isFolder: true, name: /^step-\d+(\.\w+)?$/ },
  logs: { isFolder: false, name: /\.jsonl\.gz$/ },
  jobs: { isFolder: false, name: new RegExp(`^${uuid}\\.`) },
  uploads: { isFolder: false, name: /^[0-9a-f]{64}\./ },
  incoming: { isFolder: false, name: new RegExp(`^${uuid}$`) },
} as const;

/** Names in a folder, of the service's own and of others. A folder that is not there has none. */
export async function entriesOf(
  folder: string,
  { isFolder, name }: (typeof own)[keyof typeof own],
): Promise<{ own: string[]; foreign: string[] }> {
  const found = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  });
  const isOwn = (entry: (typeof found)[number]) => entry.isDirectory() === isFolder && name.test(entry.name);
  const namesOf = (entries: typeof found) => entries.map((entry) => entry.name);
  return { own: namesOf(found.filter(isOwn)), foreign: namesOf(found.filter((entry) => !isOwn(entry))) };
}
