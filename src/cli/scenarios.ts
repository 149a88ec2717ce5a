import { mkdir, readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Command, Option } from 'commander';
import { jsonLine, MartingaleError, printable } from '../contract/index.ts';
import { readScenarios } from '../formats/conversations/read-scenarios.ts';
import { writeAtomically } from '../util/durable-files.ts';
import { hasCode } from '../util/error.ts';
import { alignColumns } from '../util/text-table.ts';
import { anyNumber } from './flags.ts';

interface ScenariosFlags {
  out: string;
  map?: string;
  validation: number;
  json?: boolean;
}

async function writeScenarios(sources: string[], flags: ScenariosFlags): Promise<void> {
  const { out, map, validation: share, json } = flags;
  const folder = resolve(out);
  await checkEmpty(folder);
  const { train, validation, report } = await readScenarios(sources, {
    ...(map === undefined ? {} : { map: await mapOf(map) }),
    validation: share,
  });
  const files = { train: join(folder, 'train.jsonl'), validation: join(folder, 'validation.jsonl') };
  if (train.length + validation.length > 0) {
    await mkdir(folder, { recursive: true });
    await writeAtomically(files.train, linesOf(train));
    if (validation.length > 0) await writeAtomically(files.validation, linesOf(validation));
  } else process.exitCode = 1;
  if (json) return void process.stdout.write(jsonLine(report));
  const rows = [
    ['files', report.files],
    ['model calls and groups of runs', report.read],
    ['different openings and scenarios', report.different],
    ...(map === undefined
      ? []
      : [
          [`left out by ${map}`, report.dropped],
          ['equal after it', report.merged],
        ]),
    ...(train.length > 0 ? [[files.train, report.train]] : []),
    ...(validation.length > 0 ? [[files.validation, report.validation]] : []),
  ].map(([name, count]) => [printable(String(name)), String(count)]);
  const unread = report.unread.map(({ reason, count, first }) => [
    `  ${printable(reason)}`,
    String(count),
    printable(first),
  ]);
  process.stdout.write(
    `${[...alignColumns(rows), ...(unread.length > 0 ? ['not read, and where the first one is', ...alignColumns(unread)] : [])].join('\n')}\n`,
  );
}

const linesOf = (scenarios: readonly unknown[]) =>
  scenarios.map((scenario) => `${JSON.stringify(scenario)}\n`);

/** @throws MartingaleError */
async function checkEmpty(folder: string): Promise<void> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return [];
    throw error;
  });
  if (names.length > 0)
    throw new MartingaleError('bad_option', `--out ${folder} is not empty: name a new folder.`);
}

/** The function that a module exports by default. @throws MartingaleError */
async function mapOf(file: string): Promise<(scenario: unknown) => unknown> {
  const { default: map }: { default?: unknown } = await import(pathToFileURL(resolve(file)).href);
  if (typeof map === 'function') return (scenario) => map(scenario);
  throw new MartingaleError(
    'bad_option',
    `--map ${file} exports no function by default: it gets a scenario and returns one, or null.`,
  );
}

export const scenariosCommand = (): Command =>
  new Command('scenarios')
    .description(
      'Make scenarios from recorded conversations: traces of OpenTelemetry (OTLP JSON), logs of chat completions (JSON lines), or runs.',
    )
    .argument('<source...>', 'files, or folders with .json and .jsonl files; or folders of runs')
    .requiredOption('--out <folder>', 'a new folder, for train.jsonl and validation.jsonl')
    .option(
      '--map <file>',
      'a module whose default export gets each scenario and returns what to write in its place; null leaves it out',
    )
    .addOption(
      new Option('--validation <share>', 'share of the newest, for validation.jsonl')
        .argParser(anyNumber(0, 0.9))
        .default(0.2),
    )
    .option('--json', 'print one JSON object, for programs')
    .addHelpText('after', '\nThe exit status is 1 if there is no scenario.')
    .action(writeScenarios);
