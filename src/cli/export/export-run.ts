import { writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { printable, withoutStep } from '../../contract/index.ts';
import { counted } from '../../progress/index.ts';
import type { GroupRecord } from '../../rollout/index.ts';
import { type RunReader, readRun } from '../../training/index.ts';
import { isFree, makeFolder, writeAtomically, writeNewFolder } from '../../util/durable-files.ts';
import { sumOf } from '../../util/sums.ts';
import type { RunRow } from '../../view/index.ts';
import { badOption } from '../bad-option.ts';
import { chooseRun } from '../run-commands/chosen-run.ts';
import { atifOf } from './atif.ts';
import { CsvTable } from './csv.ts';
import { inspectLog } from './inspect-log.ts';
import { SftExamples } from './sft-examples.ts';
import { logToTrackio } from './trackio.ts';

/** What a run can be written as. */
export const runForms = ['inspect', 'trackio', 'atif', 'csv', 'sft'] as const;

export interface RunExport {
  to: (typeof runForms)[number];
  out: string;
  in: string;
  step?: string[];
  minReward: number;
}

/** Writes a run for other programs. */
export async function exportRun(name: string | undefined, flags: RunExport): Promise<void> {
  const { to: as, step, minReward } = flags;
  const { row } = await chooseRun(name, flags.in);
  const run = await readRun(row.folder);
  if (as === 'trackio') return exportFigures(run, row, flags.out);
  const to = resolve(flags.out);
  if (!(await isFree(to))) throw badOption(`--out ${to} exists already: name a new one`);
  const all = await namesOf(run, step);
  // Only when they are asked for: a model that was trained on an evaluation knows its answers by heart.
  const names = as === 'sft' && step === undefined ? all.filter(isStep) : all;
  const count =
    as === 'atif'
      ? await writeAtif(run, { names, row, to })
      : await writeText(run, { names, as, minReward, row, to });
  process.stdout.write(`${counted(count, as === 'sft' ? 'example' : 'rollout')} in ${printable(to)}\n`);
}

const isStep = (name: string): boolean => /^step-\d+$/.test(name);

/** The figures of the steps, to a server: `--out` is its address. */
async function exportFigures(run: RunReader, row: RunRow, url: string): Promise<void> {
  const token = process.env.TRACKIO_WRITE_TOKEN;
  if (!URL.canParse(url))
    throw badOption(`--out ${url} is not the address of a Trackio server, such as http://127.0.0.1:7860`);
  if (!token) throw badOption("the server's write token is missing: set TRACKIO_WRITE_TOKEN");
  const reports = await run.reports();
  const target = { url, token, project: row.environment ?? 'martingale', run: row.name };
  await logToTrackio(target, reports, (await run.config()) ?? {});
  process.stdout.write(
    `${counted(reports.length, 'step')} in ${url}, project ${printable(target.project)}\n`,
  );
}

/** A file for each rollout, in a folder. */
async function writeAtif(
  run: RunReader,
  { names, row, to }: { names: readonly string[]; row: RunRow; to: string },
): Promise<number> {
  let count = 0;
  await writeNewFolder(to, async (folder) => {
    for await (const { name, record } of groupsOf(run, names))
      for (const at of record.rollouts.keys()) {
        const trajectory = atifOf(row.environment ?? 'unknown', { record, at });
        if (!trajectory) continue;
        await writeFile(
          join(folder, `${name}-group-${record.group}-rollout-${at}.json`),
          JSON.stringify(trajectory),
        );
        count++;
      }
  });
  return count;
}

async function writeText(run: RunReader, { to, ...what }: Exported & { to: string }): Promise<number> {
  const { text, count } = await textOf(run, what);
  await makeFolder(dirname(to));
  await writeAtomically(to, text);
  return count;
}

/** The names of the groups that are exported: of the flags, else all. */
async function namesOf(run: RunReader, steps: readonly string[] | undefined): Promise<string[]> {
  const known = await run.groupNames();
  if (steps === undefined) return known;
  return steps.map((step) => {
    const name = /^\d+$/.test(step) ? `step-${step.padStart(4, '0')}` : step;
    if (known.includes(name)) return name;
    throw badOption(`the run has no groups of --step ${step}: it has ${known.slice(0, 10).join(', ')}`);
  });
}

interface Exported {
  names: readonly string[];
  as: 'csv' | 'sft' | 'inspect';
  minReward: number;
  row: RunRow;
}

async function textOf(
  run: RunReader,
  { names, as, minReward, row }: Exported,
): Promise<{ text: string; count: number }> {
  if (as === 'csv') {
    const table = new CsvTable();
    for await (const group of groupsOf(run, names)) table.add(group);
    const { lines } = table;
    return { text: lines.join(''), count: lines.length - 1 };
  }
  if (as === 'sft') {
    const examples = new SftExamples({ minReward });
    for await (const { record } of groupsOf(run, names)) examples.add(record);
    const { lines } = examples;
    if (lines.length === 0) throw badOption(`no rollout of the run has a reward of at least ${minReward}`);
    return { text: lines.map((line) => `${line}\n`).join(''), count: lines.length };
  }
  const groups: NamedGroup[] = [];
  for await (const group of groupsOf(run, names)) groups.push(group);
  const source = {
    run: row.name,
    environment: row.environment ?? 'unknown',
    model: withoutStep(row.model ?? 'unknown'),
    started: row.started ?? row.changed,
  };
  const count = sumOf(groups, ({ record }) => record.rollouts.length);
  return { text: JSON.stringify(inspectLog(source, groups)), count };
}

interface NamedGroup {
  name: string;
  record: GroupRecord;
}

async function* groupsOf(run: RunReader, names: readonly string[]): AsyncGenerator<NamedGroup, undefined> {
  for (const name of names) for await (const record of run.groups(name)) yield { name, record };
}
