import { Command, Option } from 'commander';
import { printable } from '../../contract/index.ts';
import { alignColumns } from '../../util/text-table.ts';
import type { RunDetail, RunRow } from '../../view/index.ts';
import { wholeNumber } from '../flags.ts';
import { runFolders } from '../view.ts';
import { type ChosenRun, chooseRun } from './chosen-run.ts';
import { plot } from './plot.ts';
import { type JsonFlag, print, printJson, type RunFlags } from './print.ts';
import { show } from './show.ts';
import { age, percentage, shortNumber } from './text.ts';

async function list(folders: readonly string[], { json }: JsonFlag): Promise<void> {
  const { RunViews } = await import('../../view/index.ts');
  const answer = await new RunViews(runFolders(folders)).list();
  if (json) return printJson(answer);
  if (answer.runs.length === 0) return print([`There are no runs in ${answer.folders.join(', ')}.`]);
  const rows = answer.runs.map((run) => [
    printable(run.name),
    run.status,
    `${run.step}/${run.steps}`,
    shortNumber(run.reward),
    percentage(run.success),
    shortNumber(run.cost),
    age(run.changed),
    printable(run.problem ?? run.model ?? '-'),
  ]);
  print(alignColumns([['RUN', 'STATUS', 'STEP', 'REWARD', 'SUCCESS', 'COST', 'CHANGED', 'MODEL'], ...rows]));
}

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

const folderFlag = (): Option =>
  new Option('--in <folder>', 'where runs are looked for by name').default('runs');
const jsonFlag = (): Option => new Option('--json', 'print one JSON object, for programs');

/** The commands that show runs in a terminal. */
export const runCommands = (): Command[] => [
  new Command('runs')
    .description('List runs: status, step, reward, cost.')
    .argument('[folder...]', 'folders with runs, at any depth up to four (default: runs)')
    .addOption(jsonFlag())
    .action(list),
  new Command('show')
    .description('Show a run, a step with its worst conversations, or a group.')
    .argument('[run]', 'its folder, or in --in its name, a part of it, or its model (default: the newest)')
    .option('--step <step>', 'a step from 0, or an evaluation such as before')
    .addOption(
      new Option('--worst <count>', 'with --step: conversations of the lowest rewards')
        .argParser(wholeNumber(0, 100))
        .default(3),
    )
    .addOption(
      new Option(
        '--group <number>',
        'all rollouts of a group of the step (default: the last step)',
      ).argParser(wholeNumber(0)),
    )
    .addOption(folderFlag())
    .addOption(jsonFlag())
    .action(show),
  new Command('compare')
    .description('Compare two runs: rewards, validations, and the options that differ.')
    .argument('<run>')
    .argument('<other>')
    .addOption(folderFlag())
    .addOption(jsonFlag())
    .action(compareRuns),
  new Command('plot')
    .description('Draw curves of a run in the terminal.')
    .argument('[run]', 'its folder, or in --in its name, a part of it, or its model (default: the newest)')
    .argument(
      '[figure...]',
      'such as reward, success, entropy, replyTokens.mean (default: reward and success)',
    )
    .addOption(folderFlag())
    .addOption(jsonFlag())
    .action(plot),
];
