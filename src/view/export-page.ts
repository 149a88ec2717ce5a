import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { writeNewFolder } from '../util/durable-files.ts';
import { pageFiles } from './page-files.ts';
import { RunViews } from './run-views.ts';
import { answer } from './view-app.ts';

export interface ExportOptions {
  folders: readonly string[];
  /** A folder that is new or empty. */
  to: string;
  /** Most rollouts of a run whose conversations are written; those of further steps are left out, evenly. */
  maxRollouts: number;
  /** Called as runs are written, with a fraction for the one that is being written. */
  onProgress?: ((done: number, total: number) => void) | undefined;
  signal?: AbortSignal | undefined;
}

export interface Exported {
  runs: number;
  files: number;
  /** Steps and evaluations without their groups, by the id of their run. */
  leftOut: Record<string, string[]>;
}

/**
 * Writes the page with all its answers as files, which any web server can show. A run with too many rollouts keeps its
 * curves and the lists of all steps; the groups are those of every n-th step. The folder is whole or absent.
 */
export async function exportPage({
  folders,
  to,
  maxRollouts,
  onProgress,
  signal,
}: ExportOptions): Promise<Exported> {
  const views = new RunViews(folders);
  const exported: Exported = { runs: 0, files: 0, leftOut: {} };
  await writeNewFolder(to, async (folder) => {
    const write = async (name: string, content: string | Uint8Array) => {
      signal?.throwIfAborted();
      const path = join(folder, name);
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, content);
      exported.files++;
    };
    const store = async <Answer extends object>(path: string): Promise<Answer> => {
      const value = await answer({ views, service: null }, path);
      await write(`api/${path}.json`, JSON.stringify(value));
      return value as Answer;
    };
    for (const { name, body } of await pageFiles()) await write(name, body);
    const { runs } = await store<Awaited<ReturnType<RunViews['list']>>>('runs');
    for (const { id } of runs) {
      exported.runs++;
      const { names, evaluations } = await store<Awaited<ReturnType<RunViews['run']>>>(`runs/${id}`);
      const onStep = (share: number) => onProgress?.(exported.runs - 1 + share, runs.length);
      const left = await exportSteps({ views, store, id, names, maxRollouts, onStep });
      if (left.length > 0) exported.leftOut[id] = left;
      const kept = evaluations.map(({ name }) => name).filter((name) => names.includes(name));
      for (const [at, a] of kept.entries())
        for (const b of kept.slice(at + 1)) await store(`flips/${id}/${a}/${id}/${b}`);
    }
  });
  return exported;
}

interface StepsExport {
  views: RunViews;
  store: (path: string) => Promise<object>;
  id: string;
  names: readonly string[];
  maxRollouts: number;
  /** Gets the share of the steps whose conversations are written. */
  onStep: (share: number) => void;
}

/** Returns the names whose groups are left out. */
async function exportSteps({ views, store, id, names, maxRollouts, onStep }: StepsExport): Promise<string[]> {
  const sizes = new Map<string, number>();
  for (const which of names) {
    const { groups } = await views.step(id, which);
    sizes.set(
      which,
      groups.reduce((sum, { rollouts }) => sum + rollouts.length, 0),
    );
    await store(`runs/${id}/steps/${which}`);
    await store(`runs/${id}/steps/${which}/timeline`);
  }
  const total = [...sizes.values()].reduce((sum, size) => sum + size, 0);
  const apart = Math.max(1, Math.ceil(total / maxRollouts));
  const isKept = (at: number) => at % apart === 0 || at === names.length - 1;
  for (const [at, which] of names.entries()) {
    onStep(at / names.length);
    if (!isKept(at)) continue;
    const { groups } = await views.step(id, which);
    for (const { group, rollouts } of groups) {
      const path = `runs/${id}/steps/${which}/groups/${group}`;
      await store(path);
      for (const { rollout } of rollouts) await store(`${path}/rollouts/${rollout}`);
    }
  }
  return names.filter((_, at) => !isKept(at));
}
