import { Command, Option } from 'commander';
import { MartingaleError } from '../../contract/index.ts';
import { anyNumber, serviceUrl } from '../flags.ts';
import { exportModel, type ModelExport } from './export-model.ts';
import { exportRun, type RunExport, runForms } from './export-run.ts';

type ExportFlags = ModelExport & Partial<Pick<RunExport, 'to' | 'in' | 'step' | 'minReward'>>;

/** Flags that only one kind of export has, by their names in `ExportFlags`. */
const ofRuns = { in: '--in', step: '--step', minReward: '--min-reward' } as const;
const ofModels = { merged: '--merged', checkpoint: '--checkpoint' } as const;

async function exportEither(name: string | undefined, flags: ExportFlags): Promise<void> {
  const { to, in: folder = 'runs', minReward = 1, ...rest } = flags;
  const wrong = Object.entries(to === undefined ? ofRuns : ofModels).find(([flag]) => flag in flags);
  if (wrong)
    throw badOption(
      to === undefined
        ? `${wrong[1]} is for runs: say with --to what the run is written as (${runForms.join(', ')})`
        : `${wrong[1]} is for models, and --to ${to} writes a run: leave one of them out`,
    );
  if (to !== undefined) return exportRun(name, { ...rest, to, in: folder, minReward });
  if (name === undefined)
    throw badOption(
      `name a model to export, or say with --to what the newest run is written as (${runForms.join(', ')})`,
    );
  return exportModel(name, rest);
}

const badOption = (problem: string) => new MartingaleError('bad_option', problem);

export const exportCommand = (): Command =>
  new Command('export')
    .description(
      "Write a trained model of a service into a folder (PEFT's files, or a whole checkpoint), or a run for other programs.",
    )
    .argument(
      '[model or run]',
      'project/model, with :stepN for a certain checkpoint; with --to the folder of a run, or its name in --in (default: the newest)',
    )
    .requiredOption(
      '--out <path>',
      'where to write: a new file or folder. With --to trackio, the address of a server',
    )
    .addOption(
      new Option(
        '--to <form>',
        'write a run: a log of Inspect (.json), to a Trackio server, a folder of ATIF, a table, or supervised examples',
      ).choices([...runForms]),
    )
    .option('--step <steps...>', 'of a run: steps from 0, or evaluations such as after (default: all)')
    .option('--min-reward <reward>', 'with --to sft: lowest reward of an example (default 1)', anyNumber())
    .option('--in <folder>', 'where a run is looked for by name (default "runs")')
    .option(
      '--merged',
      'of a model: a whole checkpoint in Hugging Face form, with the adapter in its weights',
    )
    .option(
      '--checkpoint <folder>',
      'the base of a model: a folder, a .gguf file, hf:owner/name[@revision] or ollama:name[:tag]; for --merged',
    )
    .addOption(
      new Option('--base-url <url>', 'the service of a model')
        .env('MARTINGALE_BASE_URL')
        .argParser(serviceUrl)
        .default('http://127.0.0.1:8000'),
    )
    .addOption(new Option('--api-key <key>', 'key of the service').env('MARTINGALE_API_KEY'))
    .action(exportEither);
