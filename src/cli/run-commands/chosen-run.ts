import { existsSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { MartingaleError } from '../../contract/index.ts';
import type { RunRow, RunViews } from '../../view/index.ts';

export interface ChosenRun {
  views: RunViews;
  row: RunRow;
}

/** A run by its folder, or by its name below `folder` or a part that only its name has; without either the newest there. */
export async function chooseRun(name: string | undefined, folder: string): Promise<ChosenRun> {
  const { RunViews } = await import('../../view/index.ts');
  if (name !== undefined && existsSync(name)) {
    const views = new RunViews([resolve(name)]);
    const [row, other] = (await views.list()).runs;
    if (row && !other) return { views, row };
    if (other) throw badRun(`${resolve(name)} holds more than one run: name one of its folders`);
  }
  const views = new RunViews([resolve(folder)]);
  const { runs } = await views.list();
  const row = name === undefined ? runs[0] : runs.find((run) => isCalled(run, name));
  if (row) return { views, row };
  const similar = runs.filter((run) => name !== undefined && run.name.includes(name));
  const [only, another] = similar;
  if (only && !another) return { views, row: only };
  if (another) throw badRun(`${name} may be ${similar.map((run) => run.name).join(', ')}: name more of it`);
  const known = runs.map((run) => run.name).slice(0, 10);
  throw badRun(
    name === undefined
      ? `there is no run in ${resolve(folder)}: name its folder, or --in another one`
      : `there is no run ${name}, neither as a folder nor in ${resolve(folder)}${known.length > 0 ? `, which has ${known.join(', ')}` : ''}`,
  );
}

const isCalled = ({ id, name, folder }: RunRow, asked: string): boolean =>
  [id, name, basename(folder)].includes(asked);

export const badRun = (problem: string): MartingaleError => new MartingaleError('run_not_found', problem);
