import { MartingaleError } from '../../contract/index.ts';
import { type Environment, isEnvironment } from '../../environment/index.ts';

/**
 * Loads the environment that a module exports.
 * @throws MartingaleError (`environment_not_exported`); errors of the module as they are.
 */
export async function loadEnvironment(module: string, exportName: string): Promise<Environment> {
  const exported: Record<string, unknown> = await import(module);
  const environment = exported[exportName];
  if (isEnvironment(environment)) return environment as Environment;
  throw new MartingaleError(
    'environment_not_exported',
    `${module} exports no environment as "${exportName}". Export an environment created by defineEnvironment(), or name the export ` +
      'with `exportName`.',
  );
}
