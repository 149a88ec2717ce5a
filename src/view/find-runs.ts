import { readdir } from 'node:fs/promises';
import { basename, join, relative, resolve, sep } from 'node:path';
import { hasCode } from '../util/error.ts';

/** The folder of a run below the folders that are shown. */
export interface FoundRun {
  /** Names the run in addresses; see `RunRow`. */
  id: string;
  name: string;
  /** Absolute path. */
  folder: string;
}

/** Runs are found this deep below a folder. */
const maxDepth = 4;
const skipped = new Set(['node_modules', 'trajectories', 'evaluations', 'jobs', 'logged', 'service']);
/** Each run has one of these from its first moment. */
const signs = ['config.json', 'events.jsonl', 'metrics.jsonl', 'run.lock'];
/** A `config.json` alone may be anything's. */
const isRun = (names: readonly string[]): boolean =>
  signs.slice(1).some((sign) => names.includes(sign)) ||
  (names.includes('config.json') && names.includes('trajectories'));

/** Finds the runs in folders and below them, sorted by path. A folder that does not exist has none. */
export const findRuns = (folders: readonly string[]): Promise<FoundRun[]> => findFolders(folders, isRun);

/** Finds the evaluations in folders and below them that belong to no run, as `findRuns` does. */
export const findEvaluations = (folders: readonly string[]): Promise<FoundRun[]> =>
  findFolders(folders, (names) => names.includes('evaluation.json'));

type IsWanted = (names: readonly string[]) => boolean;

async function findFolders(folders: readonly string[], isWanted: IsWanted): Promise<FoundRun[]> {
  const found = new Map<string, string>();
  for (const folder of folders.map((path) => resolve(path)))
    for (const path of await foldersBelow(folder, maxDepth, isWanted)) found.set(path, nameOf(folder, path));
  const ids = new Set<string>();
  return [...found]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([folder, name]) => ({ id: freeId(name, ids), name, folder }));
}

async function foldersBelow(folder: string, depth: number, isWanted: IsWanted): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error) => {
    if (['ENOENT', 'ENOTDIR', 'EACCES', 'EPERM'].some((code) => hasCode(error, code))) return [];
    throw error;
  });
  const names = entries.map(({ name }) => name);
  if (isWanted(names)) return [folder];
  if (depth === 0 || isRun(names)) return [];
  const inner = entries.filter(
    (entry) => entry.isDirectory() && !skipped.has(entry.name) && !entry.name.startsWith('.'),
  );
  return (
    await Promise.all(inner.map(({ name }) => foldersBelow(join(folder, name), depth - 1, isWanted)))
  ).flat();
}

/** The path below the folder. A recipe keeps its run in `training/`, which says nothing. */
function nameOf(root: string, folder: string): string {
  const path = relative(root, folder).split(sep);
  if (path.length > 1 && path.at(-1) === 'training') path.pop();
  const name = path.join('/');
  if (name !== '' && name !== 'training') return name;
  return name === '' ? basename(folder) : basename(root);
}

/** Only characters that stay as they are in an address and in the name of a file. */
function freeId(name: string, ids: Set<string>): string {
  const plain =
    name
      .replaceAll('/', '~')
      .replaceAll(/[^\w.~-]+/g, '-')
      .replace(/^\.+/, '') || 'run';
  let id = plain;
  for (let number = 2; ids.has(id); number++) id = `${plain}-${number}`;
  ids.add(id);
  return id;
}
