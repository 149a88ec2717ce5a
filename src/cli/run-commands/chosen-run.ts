import { existsSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { MartingaleError, printable, withoutStep } from '../../contract/index.ts';
import type { RunRow, RunViews } from '../../view/index.ts';

export interface ChosenRun {
  views: RunViews;
  row: RunRow;
}

/**
 * A run by its folder; or below `folder` by its name, its model's name, or a part of its name. Without a name the newest
 * there. If several have the name, the newest of them, with a line on standard error.
 */
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
  const [row, ...others] = name === undefined ? runs.slice(0, 1) : runsCalled(name, runs);
  if (row) {
    if (others.length > 0)
      process.stderr.write(
        `${printable(`${name} may be ${namesOf([row, ...others])}. This is the newest of them, ${row.name}.`)}\n`,
      );
    return { views, row };
  }
  throw badRun(
    name === undefined
      ? `there is no run in ${resolve(folder)}: name its folder, or --in another one`
      : existsSync(name)
        ? `${resolve(name)} is not the folder of a run, which has an events.jsonl or a config.json`
        : `there is no run ${name}, neither as a folder nor in ${resolve(folder)}${runs.length > 0 ? `, which has ${namesOf(runs)}` : ''}`,
  );
}

/** The runs that a name may mean, by the first way that finds any. `runs` are newest first, and so is the answer. */
function runsCalled(name: string, runs: readonly RunRow[]): readonly RunRow[] {
  const ways: ((run: RunRow) => boolean)[] = [
    (run) => [run.id, run.name, basename(run.folder)].includes(name),
    ({ model }) => model !== null && `/${withoutStep(model)}`.endsWith(`/${name.replace(/:step\d+$/, '')}`),
    (run) => run.name.includes(name),
  ];
  return ways.map((isMeant) => runs.filter(isMeant)).find((found) => found.length > 0) ?? [];
}

const namesOf = (runs: readonly RunRow[]): string =>
  runs
    .slice(0, 10)
    .map(({ name, model }) => (model === null ? name : `${name} (${withoutStep(model)})`))
    .join(', ');

export const badRun = (problem: string): MartingaleError => new MartingaleError('run_not_found', problem);
