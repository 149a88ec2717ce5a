import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { printable } from '../../contract/index.ts';
import { type ComparedEvaluation, compare, describeComparison } from '../../evaluation/index.ts';
import { alignColumns } from '../../util/text-table.ts';
import type { RunDetail, RunRow } from '../../view/index.ts';
import { badOption } from '../bad-option.ts';
import { type ChosenRun, chooseRun } from './chosen-run.ts';
import { print, printJson, type RunFlags } from './print.ts';
import { percentage, shortNumber } from './text.ts';

interface CompareFlags extends RunFlags {
  measure?: 'reward' | 'success';
}

/** Compares evaluations if one of the names is of an evaluation, else two runs. */
export async function compareNamed(names: readonly string[], flags: CompareFlags): Promise<void> {
  const named = await Promise.all(names.map((name) => namedEvaluation(name, flags)));
  const evaluations = named.filter((one) => one !== null);
  if (evaluations.length > 0) {
    const run = names.find((_, at) => named[at] === null);
    if (run !== undefined)
      throw badOption(
        `${run} is not an evaluation, and cannot be compared with ${evaluations[0]?.name}. Name a folder of \`eval --out\`, a file of \`eval --json\`, or an evaluation of a run, such as ${run}:before.`,
      );
    const table = await compare(evaluations, { measure: flags.measure });
    if (flags.json) return printJson(table);
    return print([describeComparison(table).trimEnd()]);
  }
  const [a, b, more] = names;
  if (a === undefined || b === undefined || more !== undefined)
    throw badOption(
      `${names.length === 1 ? 'One run is' : `${names.length} runs are`} named, and two are compared. Evaluations of any number are: ${names[0]}:after.`,
    );
  if (flags.measure !== undefined)
    throw badOption('--measure is of evaluations: name them, such as desk:before and desk:after.');
  return compareRuns(a, b, flags);
}

/** The evaluation that a text names, as `[name=]` and a path, or a run and its evaluation; null for anything else. */
async function namedEvaluation(text: string, flags: RunFlags): Promise<ComparedEvaluation | null> {
  const [, given, source = text] = /^([^=/\\]+)=(.+)$/s.exec(text) ?? [];
  const isStored = /\.(jsonl|ndjson)$/.test(source) || (await exists(join(source, 'evaluation.json')));
  if (isStored) return { name: given ?? source, evaluation: source };
  const [, run, which] = /^(.+):([^:/\\]+)$/s.exec(source) ?? [];
  if (run === undefined || which === undefined || (await exists(source))) return null;
  const { views, row } = await chooseRun(run, flags.in);
  return { name: given ?? source, evaluation: await views.evaluations.folderOf(row, which) };
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

async function compareRuns(nameA: string, nameB: string, { in: folder, json }: RunFlags): Promise<void> {
  const [a, b] = [await chooseRun(nameA, folder), await chooseRun(nameB, folder)];
  const [left, right] = [await detailOf(a), await detailOf(b)];
  const { differencesOf } = await import('../../view/index.ts');
  const differences = differencesOf([left.config, right.config]);
  if (json) return printJson({ a: left, b: right, differences });
  const both = (name: string, of: (run: RunRow) => string) => [name, of(left), of(right)];
  print([
    ...alignColumns([
      ['', printable(left.name), printable(right.name)],
      both('status', ({ status }) => status),
      both('step', ({ step, steps }) => `${step}/${steps}`),
      both('reward', ({ reward }) => shortNumber(reward)),
      both('success', ({ success }) => percentage(success)),
      both('cost', ({ cost }) => shortNumber(cost)),
      ...left.evaluations.flatMap(({ name, reward }) => {
        const other = right.evaluations.find((one) => one.name === name);
        return other
          ? [[`validation ${printable(name)}`, shortNumber(reward), shortNumber(other.reward)]]
          : [];
      }),
      ...differences.map(({ path, values }) => [
        path,
        ...values.map((value) => printable(value ?? 'not set').slice(0, 60)),
      ]),
    ]),
  ]);
}

const detailOf = ({ views, row }: ChosenRun): Promise<RunDetail> => views.run(row.id);
