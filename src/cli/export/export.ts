import { Command, Option } from 'commander';
import type { GgufType } from '../../engines/embedded/tools.ts';
import { badOption } from '../bad-option.ts';
import { anyNumber, serviceUrl } from '../flags.ts';
import { exportModel, type ModelExport } from './export-model.ts';
import { exportRun, type RunExport, runForms } from './export-run.ts';

type ExportFlags = Omit<ModelExport, 'to'> &
  Partial<Pick<RunExport, 'in' | 'step' | 'minReward'>> & { to?: RunExport['to'] | 'gguf' };

const ggufTypes: readonly GgufType[] = ['f16', 'q8_0'];

/** Flags that only one kind of export has, by their names in `ExportFlags`. */
const ofRuns = { step: '--step', minReward: '--min-reward' } as const;
const ofModels = {
  ...{ merged: '--merged', checkpoint: '--checkpoint', type: '--type', adapter: '--adapter' },
  chatTemplate: '--chat-template',
} as const;

async function exportEither(name: string | undefined, flags: ExportFlags): Promise<void> {
  const { to, in: folder = 'runs', minReward = 1, ...rest } = flags;
  const isModel = to === undefined || to === 'gguf';
  const wrong = Object.entries(isModel ? ofRuns : ofModels).find(([flag]) => flag in flags);
  if (wrong)
    throw badOption(
      isModel
        ? `${wrong[1]} is for runs: say with --to what the run is written as (${runForms.join(', ')})`
        : `${wrong[1]} is for models, and --to ${to} writes a run: leave one of them out`,
    );
  if (!isModel) return exportRun(name, { ...rest, to, in: folder, minReward });
  if (name === undefined)
    throw badOption(
      `name a model to export, or say with --to what the newest run is written as (${runForms.join(', ')})`,
    );
  return exportModel(name, { ...rest, in: folder, ...(to === undefined ? {} : { to }) });
}

export const exportCommand = (): Command =>
  new Command('export')
    .description(
      "Write a trained model of a service into a folder (PEFT's files, a whole checkpoint, or a GGUF file for llama.cpp and Ollama), or a run for other programs.",
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
        'gguf writes a model; all others a run: a log of Inspect (.json), to a Trackio server, a folder of ATIF, a table, or supervised examples',
      ).choices(['gguf', ...runForms]),
    )
    .option(
      '--step <steps...>',
      'of a run: steps from 0, or evaluations such as after (default: all; for sft, only steps)',
    )
    .option('--min-reward <reward>', 'with --to sft: lowest reward of an example (default 1)', anyNumber())
    .option(
      '--in <folder>',
      'folder of runs: for a run given by name, and for the run of a model, which tells its response format (default "runs")',
    )
    .option(
      '--merged',
      'of a model: a whole checkpoint in Hugging Face form, with the adapter in its weights',
    )
    .option(
      '--checkpoint <folder>',
      'the base of a model: a folder, a .gguf file, hf:owner/name[@revision] or ollama:name[:tag]; for --merged and --to gguf',
    )
    .addOption(
      new Option('--type <type>', 'with --to gguf: how matrices are stored (default f16)').choices(ggufTypes),
    )
    .option('--adapter', 'with --to gguf: only the adapter, for use beside its base')
    .option(
      '--chat-template <name>',
      'with a whole model: the template that it was served with, a file or hermes',
    )
    .addOption(
      new Option('--base-url <url>', 'the service of a model')
        .env('MARTINGALE_BASE_URL')
        .argParser(serviceUrl)
        .default('http://127.0.0.1:8000'),
    )
    .addOption(new Option('--api-key <key>', 'key of the service').env('MARTINGALE_API_KEY'))
    .action(exportEither);
