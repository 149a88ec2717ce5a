import { Command, Option } from 'commander';
import type { IfExists } from '../../model/index.ts';
import { addCheckpointFlags, type CheckpointFlags, checkpointArguments } from '../checkpoint-flags.ts';
import { positiveNumber, serviceUrl, threadsFlag, wholeNumber } from '../flags.ts';

/** The parsed flags of a recipe. */
export interface RecipeOptions extends CheckpointFlags {
  json: boolean;
  seed: number;
  steps: number;
  groups: number;
  rolloutsPerGroup: number;
  /** Only for recipes with an environment. Default: the recipe's, else the base model's. */
  learningRate?: number;
  threads?: number;
  baseUrl?: string;
  apiKey?: string;
  /** Default: the first checkpoint, else the recipe's. */
  baseModel?: string;
  /** What to do if the service already has a model with the run's name. */
  ifExists: IfExists;
  runDirectory?: string;
  /** Continue the run in `runDirectory`. */
  resume?: true;
  /** Longest time from an interrupt to the end, in seconds. */
  stopWithin: number;
}

interface ProgramDescription {
  command: string;
  description: string;
  defaults: { steps: number; groups: number; rolloutsPerGroup: number; baseModel: string };
  /** Whether the learning rate can be chosen: a recipe with its own `learn` has its own. */
  takesLearningRate: boolean;
}

export function recipeProgram({
  command,
  description,
  defaults,
  takesLearningRate,
}: ProgramDescription): Command {
  const program = addCheckpointFlags(new Command(command))
    .description(description)
    .option('--json', 'write one JSON object per line to standard output', false)
    .option('--seed <number>', 'seed of all random choices of the run', wholeNumber(0, 2 ** 32 - 1), 1)
    .option('--steps <number>', 'steps of reinforcement learning', wholeNumber(1), defaults.steps)
    .option('--groups <number>', 'scenarios per step', wholeNumber(1), defaults.groups)
    .option(
      '--rollouts-per-group <number>',
      'rollouts of each scenario',
      wholeNumber(2),
      defaults.rolloutsPerGroup,
    )
    .addOption(threadsFlag())
    .option('--base-url <url>', 'train on this service instead of starting one', serviceUrl)
    .addOption(new Option('--api-key <key>', 'key of that service').env('MARTINGALE_API_KEY'))
    .option(
      '--base-model <name>',
      `model of the service to start from (default: the first --checkpoint, else ${defaults.baseModel})`,
    )
    .addOption(
      new Option(
        '--if-exists <what>',
        'if the service already has a model with this name: train it further, stop, or take the next free name',
      )
        .choices(['continue', 'error', 'new'] satisfies IfExists[])
        .default('continue'),
    )
    .option('--run-directory <path>', 'folder of the run (default: a new one in runs/)')
    .option('--resume', 'continue the run in --run-directory, with the same flags')
    .option(
      '--stop-within <seconds>',
      'maximum time to stop after Ctrl-C or SIGTERM',
      wholeNumber(1, 86_400),
      20,
    )
    .addHelpText(
      'after',
      '\nWithout --base-url a service with the embedded engine runs in this process. Models and ' +
        'records are stored in the run directory.',
    )
    .showHelpAfterError(`(${command} --help lists the flags)`);
  if (!takesLearningRate) return program;
  return program.option(
    '--learning-rate <number>',
    "learning rate of the training (default: the recipe's, else the base model's)",
    positiveNumber,
  );
}

/** Parses the flags of a recipe. For `--help` and invalid flags it prints a text and exits. */
export function readOptions(argv: readonly string[], program: Command): RecipeOptions {
  const options = program.parse(argv).opts<RecipeOptions>();
  if (options.baseUrl !== undefined && !options.apiKey)
    program.error('error: --base-url needs a key: pass --api-key or set MARTINGALE_API_KEY');
  if (options.baseUrl !== undefined && options.threads !== undefined)
    program.error('error: --threads is for the embedded engine and does nothing with --base-url');
  const ofCheckpoints = checkpointArguments(options).trim();
  if (options.baseUrl !== undefined && ofCheckpoints !== '')
    program.error(
      `error: ${ofCheckpoints} is for the service that a recipe starts. Pass it to the service of --base-url, and the ` +
        'name of its base model here as --base-model',
    );
  if (options.resume && options.runDirectory === undefined)
    program.error('error: --resume needs the --run-directory of the run to continue');
  return options;
}
