import { basename } from 'node:path';
import type { z } from 'zod';
import { namePartPattern } from '../../contract/index.ts';
import type { ScenarioSource } from '../../environment/index.ts';
import type { ModelHandle } from '../../model/index.ts';
import type { RunListener } from '../../progress/index.ts';
import {
  type TrainResult,
  type TrainSettings,
  train,
  trainNames,
  type ValidationOptions,
} from '../../training/index.ts';
import { checkOptionNames, type OptionNames, omitNames } from '../../util/option-names.ts';
import { shortPath } from '../../util/show-value.ts';
import type { RecipeOptions } from './options.ts';
import { runOptionError } from './run-directory.ts';

/** Options of every recipe. */
export interface RecipeDescription {
  /** Names the project on the service, and the run directory: letters, digits, dots, underscores, hyphens. */
  name: string;
  /** First line of `--help`. Default: "Trains <name>." */
  description?: string;
  /**
   * The command that runs the recipe, for `--help` and for the commands shown at the end of a run. Default: the command
   * that started this process, such as `npx tsx train.ts` or `npm run train --`.
   */
  command?: string;
  /** Defaults of the flags. */
  defaults?: {
    /** Default 100. */
    steps?: number;
    /** Scenarios per step. Default 8. */
    groups?: number;
    /** Default 8. */
    rolloutsPerGroup?: number;
    /** Default "martingale-tiny": the embedded engine's model. */
    baseModel?: string;
  };
  /** The command that runs the trained agent, without `--model <name>`. Default: none. */
  talkCommand?: string;
}

/** A value, or a function that returns it for the run's seed. */
export type Seeded<Value> = Value | ((run: { seed: number }) => Value | Promise<Value>);

/** Options of `train` that the flags or the recipe program set. */
type RunSetting =
  | 'steps'
  | 'groupsPerStep'
  | 'rolloutsPerGroup'
  | 'seed'
  | 'runDirectory'
  | 'resume'
  | 'onEvent'
  | 'progress'
  | 'signal';

/** A recipe that trains in an environment: the options of `train`, except those that the flags set. */
export interface EnvironmentRecipe<Schema extends z.ZodType, Outcome>
  extends RecipeDescription,
    Omit<TrainSettings<Schema, Outcome>, RunSetting | 'scenarios' | 'validation'> {
  scenarios: Seeded<readonly z.input<Schema>[] | ScenarioSource<z.input<Schema>>>;
  validation?: Seeded<ValidationOptions<Schema>>;
  learn?: undefined;
}

/** A recipe with its own training function, for example one that calls `train` more than once. */
export interface LearningRecipe extends RecipeDescription {
  learn: (run: RecipeRun) => Promise<TrainResult>;
}

export type Recipe<Schema extends z.ZodType = z.ZodType, Outcome = unknown> =
  | EnvironmentRecipe<Schema, Outcome>
  | LearningRecipe;

/** Argument of a recipe's `learn`. */
export interface RecipeRun {
  options: RecipeOptions;
  /** A new model from the base model, or one that the service of `--base-url` already had. */
  model: ModelHandle;
  /** Options to pass to `train`: `train({ environment, scenarios, model, ...settings })`. */
  settings: {
    steps: number;
    groupsPerStep: number;
    rolloutsPerGroup: number;
    seed: number;
    runDirectory: string;
    /** Whether `train` had begun before the interruption. Then everything that `learn` does before `train` is done. */
    resume: boolean;
    onEvent: RunListener;
    /** The recipe program shows the run. */
    progress: false;
    signal: AbortSignal;
  };
}

const recipeNames = {
  name: true,
  description: true,
  command: true,
  defaults: { steps: true, groups: true, rolloutsPerGroup: true, baseModel: true } satisfies OptionNames<
    NonNullable<RecipeDescription['defaults']>
  >,
  talkCommand: true,
  learn: true,
  ...omitNames(trainNames, [
    'model',
    'client',
    'baseUrl',
    'apiKey',
    'steps',
    'groupsPerStep',
    'rolloutsPerGroup',
    'seed',
    'runDirectory',
    'resume',
    'onEvent',
    'progress',
    'signal',
  ]),
  // Of a recipe it may be a function, too.
  validation: trainNames.validation.names,
} satisfies OptionNames<EnvironmentRecipe<z.ZodType, unknown>>;

/** A recipe with its defaults filled in. */
export interface ResolvedRecipe extends LearningRecipe {
  description: string;
  command: string;
  defaults: Required<NonNullable<RecipeDescription['defaults']>>;
  takesLearningRate: boolean;
}

/** @throws OptionError for an unknown option, for an invalid project name, and for both `environment` and `learn`. */
export function resolveRecipe<Schema extends z.ZodType, Outcome>(
  recipe: Recipe<Schema, Outcome>,
  started: Started,
): ResolvedRecipe {
  checkOptionNames('runRecipe()', recipe, recipeNames);
  if (recipe.learn && 'environment' in recipe)
    throw runOptionError(
      'learn',
      'The recipe has an `environment` and a `learn`, which would ignore it. Give only one.',
    );
  const { name, description = `Trains ${name}.`, command = commandOf(started), talkCommand } = recipe;
  if (!namePartPattern.test(name))
    throw runOptionError(
      'name',
      `The recipe's \`name\` is ${JSON.stringify(name)}. It names a project: pass 1 to 128 letters, digits, dots, ` +
        'underscores or hyphens, starting with a letter or digit.',
    );
  const {
    steps = 100,
    groups = 8,
    rolloutsPerGroup = 8,
    baseModel = 'martingale-tiny',
  } = recipe.defaults ?? {};
  const defaults = { steps, groups, rolloutsPerGroup, baseModel };
  return {
    name,
    description,
    command,
    defaults,
    talkCommand,
    takesLearningRate: recipe.learn === undefined,
    learn: recipe.learn ?? learnFromEnvironment(recipe),
  };
}

/** The `learn` function of a recipe with an environment. */
function learnFromEnvironment<Schema extends z.ZodType, Outcome>(
  recipe: EnvironmentRecipe<Schema, Outcome>,
): LearningRecipe['learn'] {
  const {
    name: _,
    description,
    command,
    defaults,
    talkCommand,
    learn,
    scenarios,
    validation,
    ...rest
  } = recipe;
  return async ({ model, settings, options: { learningRate } }) => {
    const { seed } = settings;
    return train<Schema, Outcome>({
      ...rest,
      ...(learningRate === undefined ? {} : { config: withLearningRate(rest.config, learningRate) }),
      scenarios: typeof scenarios === 'function' ? await scenarios({ seed }) : scenarios,
      validation: typeof validation === 'function' ? await validation({ seed }) : validation,
      model,
      ...settings,
    });
  };
}

type Config = TrainSettings<z.ZodType, unknown>['config'];

function withLearningRate(config: Config, learning_rate: number): Config {
  if (typeof config !== 'function') return { ...config, learning_rate };
  return (...given) => ({ ...config(...given), learning_rate });
}

/** How a process was started. `process` has these fields. */
interface Started {
  argv: readonly string[];
  execArgv: readonly string[];
  env: NodeJS.ProcessEnv;
}

/** The command that starts this program again, without its flags. */
export function commandOf({ argv, execArgv, env }: Started): string {
  const script = argv[1] ?? 'recipe';
  const { npm_lifecycle_event: event, npm_lifecycle_script: line = '', npm_config_user_agent: agent } = env;
  // These variables are also set if a package.json script starts another program.
  if (event !== undefined && event !== 'npx' && line.includes(basename(script))) {
    const manager = /^(pnpm|yarn|bun)\b/.exec(agent ?? '')?.[0] ?? 'npm';
    if (manager === 'yarn') return `yarn ${event}`;
    const named = manager === 'npm' && event === 'start' ? 'start' : `run ${event}`;
    return manager === 'npm' ? `npm ${named} --` : `${manager} ${named}`;
  }
  const runner = /\btsx\b/.test(execArgv.join(' ')) ? 'npx tsx' : 'node';
  return `${runner} ${shortPath(script)}`;
}
