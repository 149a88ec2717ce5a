import { basename } from 'node:path';
import type { z } from 'zod';
import { withoutStep } from '../contract/index.ts';
import type { TextSet } from '../environment/index.ts';
import { parseScenarios } from '../rollout/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { defaultRunDirectory, RunDirectory } from '../training/index.ts';
import { asThrownBy } from '../util/error.ts';
import { checkOptions, type Optimization, type OptimizeOptions } from './options.ts';
import { Search } from './search.ts';

/**
 * Improves the texts of an environment by reflection, as GEPA does (arXiv 2507.19457). Each iteration draws a candidate
 * from those that win validation scenarios, runs it on a few scenarios, shows what happened to `reflect`, and tries its
 * proposal on the same scenarios with the same seeds. If their rewards add up to more, the proposal is run on all
 * validation scenarios and becomes a candidate.
 *
 *     const { texts } = await optimize({ environment, scenarios, validation, model, reflect: openai('...') });
 *     await evaluate({ environment: environment.withTexts(texts), scenarios: heldOut, model });
 *
 * @throws Before anything runs: OptionError, ScenarioError, and RunError for a run directory that cannot be used or
 * resumed. Later: OptimizationError if `reflect` fails or nothing can be scored; RunError (`storage_failed`). The run
 * can then be resumed.
 */
export async function optimize<Schema extends z.ZodType, Outcome, Texts extends TextSet>(
  options: OptimizeOptions<Schema, Outcome, Texts>,
): Promise<Optimization<Texts>> {
  try {
    checkOptions(options);
    const { environment, scenarios, validation = scenarios } = options;
    await parseScenarios(environment, scenarios);
    const validated = await parseScenarios(environment, validation);
    const { resume = false, runDirectory = defaultRunDirectory(`${environment.name}-texts`) } = options;
    const directory = await (resume === true
      ? RunDirectory.resume(runDirectory)
      : resume === 'auto'
        ? RunDirectory.open(runDirectory)
        : RunDirectory.create(runDirectory));
    try {
      const attributes = {
        [attribute.runId]: basename(directory.path),
        [attribute.environment]: environment.name,
        [attribute.modelName]: withoutStep(options.model.name),
      };
      return await withSpan(spanName.optimization, attributes, () =>
        Search.run(options, directory, validated),
      );
    } finally {
      directory.release();
    }
  } catch (error) {
    throw asThrownBy(optimize, error);
  }
}
