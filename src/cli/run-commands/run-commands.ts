import { Command, Option } from 'commander';
import { printable } from '../../contract/index.ts';
import { alignColumns } from '../../util/text-table.ts';
import { wholeNumber } from '../flags.ts';
import { runFolders } from '../view.ts';
import { compareNamed } from './compare.ts';
import { plot } from './plot.ts';
import { type JsonFlag, print, printJson } from './print.ts';
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
    .description(
      'Compare evaluations in one table, each beside the first: success, test, cost, latency, by scenario. Or two runs: rewards, validations, and the options that differ.',
    )
    .argument(
      '<what...>',
      'two runs; or evaluations: [name=] and a folder of --out, a file of --json, or <run>:before, <run>:after',
    )
    .addOption(
      new Option(
        '--measure <measure>',
        'of evaluations (default: success where all have it, else reward)',
      ).choices(['reward', 'success']),
    )
    .addOption(folderFlag())
    .addOption(jsonFlag())
    .action(compareNamed),
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
