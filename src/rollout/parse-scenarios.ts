import type { z } from 'zod';
import { MartingaleError } from '../contract/index.ts';
import type { Environment } from '../environment/index.ts';

/** A scenario does not fit the environment's schema. `cause` is zod's error. */
export class ScenarioError extends MartingaleError {
  constructor(index: number, environment: string, cause: Error) {
    super(
      'invalid_scenario',
      `Scenario ${index} does not fit the schema of environment "${environment}": ${cause.message}`,
      { cause },
    );
  }
}

/**
 * Scenarios as the environment's schema reads them.
 * @throws ScenarioError that names the first that does not fit.
 */
export async function parseScenarios<Schema extends z.ZodType, Outcome>(
  { name, scenario: schema }: Environment<Schema, Outcome>,
  scenarios: readonly z.input<Schema>[],
): Promise<z.output<Schema>[]> {
  const parsed: z.output<Schema>[] = [];
  for (const [index, scenario] of scenarios.entries()) {
    const result = await schema.safeParseAsync(scenario);
    if (!result.success) throw new ScenarioError(index, name, result.error);
    parsed.push(result.data);
  }
  return parsed;
}
