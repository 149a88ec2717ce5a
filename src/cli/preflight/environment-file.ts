import { existsSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Option } from 'commander';
import { MartingaleError } from '../../contract/index.ts';
import { type Environment, isEnvironment, ScenarioSet } from '../../environment/index.ts';
import { hasCode } from '../../util/error.ts';

export const scenariosFlag = (): Option =>
  new Option('--scenarios <export>', 'the export with the scenarios').default('scenarios');

interface EnvironmentFile {
  environment: Environment;
  scenarios: readonly unknown[];
}

/**
 * Loads the environment that a module exports by default, and its scenarios: the export `scenarios`, or the one named by
 * `exportName`; an array or a finite ScenarioSet. At most `most` scenarios are taken.
 *
 * @throws MartingaleError (`bad_environment_file`) that names what is missing; errors of the module as they are.
 */
export async function loadEnvironmentFile(
  file: string,
  { exportName, most }: { exportName: string; most: number },
): Promise<EnvironmentFile> {
  const { path, environment, exports } = await loadEnvironmentModule(file);
  return { environment, scenarios: await scenariosOf(exports[exportName], { path, exportName, most }) };
}

export interface EnvironmentModule {
  path: string;
  environment: Environment;
  exports: Readonly<Record<string, unknown>>;
}

/** Loads the environment that a module exports: by default, as `environment`, or by the given name. */
export async function loadEnvironmentModule(file: string, name?: string): Promise<EnvironmentModule> {
  const path = resolve(file);
  if (!existsSync(path)) throw badFile(path, 'does not exist');
  if (!/\.[cm]?[jt]sx?$/.test(path))
    throw badFile(path, 'is not a module: name a .ts or .js file that exports an environment');
  const module: Record<string, unknown> = await import(pathToFileURL(path).href).catch((error) => {
    if (error?.code === 'ERR_UNKNOWN_FILE_EXTENSION' || error?.code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX')
      throw badFile(
        path,
        'is not one that Node runs by itself: start the command with tsx, as `npx tsx node_modules/.bin/martingale`',
        error,
      );
    if (error instanceof SyntaxError || hasCode(error, 'ERR_MODULE_NOT_FOUND'))
      throw badFile(path, `cannot be loaded: ${withoutFrames(error)}`, error);
    throw error;
  });
  const environment = name === undefined ? (module.default ?? module.environment) : module[name];
  if (!isEnvironment(environment))
    throw badFile(
      path,
      name === undefined
        ? 'exports no environment: it needs `export default defineEnvironment(...)`'
        : `exports no environment as \`${name}\``,
    );
  return { path, environment: environment as Environment, exports: module };
}

/** An error and its place. Leaves out the frames of the loader, which say nothing of the module. */
const withoutFrames = ({ stack, message }: Error): string =>
  (stack ?? message).replace(/\n\s+at [\s\S]*/, '').trim();

async function scenariosOf(
  found: unknown,
  { path, exportName, most }: { path: string; exportName: string; most: number },
): Promise<readonly unknown[]> {
  const isSet = found instanceof ScenarioSet;
  const scenarios = isSet ? (await found.take(most)).map(({ scenario }) => scenario) : found;
  if (Array.isArray(scenarios) && scenarios.length > 0) return scenarios.slice(0, most);
  throw badFile(
    path,
    `has no scenarios in its export \`${exportName}\`: export an array or a ScenarioSet, or name another export with --scenarios`,
  );
}

export const badFile = (path: string, problem: string, cause?: unknown): MartingaleError =>
  new MartingaleError('bad_environment_file', `${basename(path)} (${path}) ${problem}.`, { cause });
