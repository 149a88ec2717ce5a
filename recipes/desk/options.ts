import { Command, Option } from 'commander';
import { serviceUrl, wholeNumber } from 'martingale/cli';

export interface DeskOptions {
  json: boolean;
  seed: number;
  steps: number;
  groups: number;
  rolloutsPerGroup: number;
  threads?: number;
  baseUrl?: string;
  apiKey?: string;
  baseModel: string;
  runDirectory?: string;
}

/** What a run takes where it is not told otherwise. */
export const deskDefaults = { groups: 12, rolloutsPerGroup: 8, baseModel: 'martingale-tiny' } as const;

export const deskProgram = (): Command =>
  new Command('npm start --')
    .description('Trains a support agent: a supervised start on bad habits, then reinforcement learning.')
    .option('--json', 'one JSON object a line on standard output', false)
    .option('--seed <number>', 'decides all randomness of the run', wholeNumber(0, 2 ** 32 - 1), 1)
    .option('--steps <number>', 'steps of reinforcement learning', wholeNumber(1), 120)
    .option('--groups <number>', 'scenarios a step', wholeNumber(1), deskDefaults.groups)
    .option(
      '--rollouts-per-group <number>',
      'rollouts of each scenario',
      wholeNumber(2),
      deskDefaults.rolloutsPerGroup,
    )
    .option('--threads <number>', 'threads of the embedded engine', wholeNumber(1))
    .option('--base-url <url>', 'train on this service instead of starting one', serviceUrl)
    .addOption(new Option('--api-key <key>', 'key of that service').env('MARTINGALE_API_KEY'))
    .option('--base-model <name>', 'model of the service to start from', deskDefaults.baseModel)
    .option('--run-directory <path>', 'where the run is written (default: a new folder under runs/)')
    .showHelpAfterError('(npm start -- --help lists the flags)');

/** Reads the flags of `npm start`; prints help or what is wrong, and leaves, where they ask or err. */
export function readOptions(argv: readonly string[], program: Command = deskProgram()): DeskOptions {
  const options = program.parse(argv).opts<DeskOptions>();
  if (options.baseUrl !== undefined && !options.apiKey)
    program.error('error: --base-url needs a key: give --api-key, or set MARTINGALE_API_KEY');
  if (options.baseUrl !== undefined && options.threads !== undefined)
    program.error('error: --threads is for the embedded engine and does nothing with --base-url');
  return options;
}
