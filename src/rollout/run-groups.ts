import { AsyncLocalStorage } from 'node:async_hooks';
import PQueue from 'p-queue';
import type { z } from 'zod';
import { MartingaleError } from '../contract/index.ts';
import type { Environment } from '../environment/index.ts';
import type { ModelHandle } from '../model/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { deriveSeed } from '../trajectory/index.ts';
import { type Books, keepBooks, type Rollout } from './rollout.ts';
import { RolloutGroup } from './rollout-group.ts';
import { runRollout } from './run-rollout.ts';

export interface RunGroupsOptions<Schema extends z.ZodType, Outcome> {
  environment: Environment<Schema, Outcome>;
  /** One group for each, in this order. */
  scenarios: readonly z.input<Schema>[];
  rolloutsPerGroup: number;
  /** Pin it (`model.at(step)`): then a call that another step answers fails its rollout. */
  model: ModelHandle;
  /** Rollouts in flight at a time. Default 256. */
  concurrency?: number;
  /** Deadline of one rollout and its rewards, in milliseconds. Default 600,000 (10 minutes). */
  timeoutMs?: number;
  /** All randomness of the rollouts follows from it. Default 0. */
  seed?: number;
  /** A call that cannot be trained on fails its rollout (`error`, the default) or is left out of it (`warn`). */
  onUnexpectedCall?: 'error' | 'warn';
  /** Called as rollouts end, with how many have. */
  onProgress?: (progress: { done: number; total: number }) => void;
  /** Cancels what has not ended; the groups are still returned. */
  signal?: AbortSignal;
}

export interface GroupsResult<Scenario> {
  /** In the order of the scenarios, whichever finished first. */
  groups: RolloutGroup<Scenario>[];
  books: Books;
  /** Sampled tokens of all rollouts. */
  sampledTokens: number;
  /** Wall-clock milliseconds. */
  durationMs: number;
}

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
 * Runs `rolloutsPerGroup` rollouts of each scenario. Each ends completed, failed or cancelled; none makes the call
 * throw.
 * @throws ScenarioError before any rollout begins.
 */
export async function runGroups<Schema extends z.ZodType, Outcome>(
  options: RunGroupsOptions<Schema, Outcome>,
): Promise<GroupsResult<z.output<Schema>>> {
  const {
    environment,
    scenarios,
    rolloutsPerGroup,
    model,
    concurrency = 256,
    timeoutMs = 600_000,
    seed = 0,
    onUnexpectedCall = 'error',
    onProgress,
    signal,
  } = options;
  const parsed = await parseScenarios(environment, scenarios);
  const begun = performance.now();
  const queue = new PQueue({ concurrency });
  const total = parsed.length * rolloutsPerGroup;
  let done = 0;

  const runGroup = async (scenario: z.output<Schema>, group: number) => {
    // A queue starts a task in the async context of whichever task ended before it.
    const inScope = AsyncLocalStorage.snapshot();
    const rollouts = Array.from({ length: rolloutsPerGroup }, async (_, index): Promise<Rollout> => {
      const rollout = await queue.add(() =>
        inScope(() =>
          runRollout({
            environment,
            scenario,
            model,
            group,
            index,
            attempt: 0,
            seed: deriveSeed(seed, group, index),
            timeoutMs,
            onUnexpectedCall,
            signal,
          }),
        ),
      );
      onProgress?.({ done: ++done, total });
      return rollout;
    });
    return new RolloutGroup<z.output<Schema>>({
      index: group,
      scenario,
      rollouts: await Promise.all(rollouts),
    });
  };
  const groups = await Promise.all(
    parsed.map((scenario, index) =>
      withSpan(spanName.group, { [attribute.groupIndex]: index }, () => runGroup(scenario, index)),
    ),
  );
  const rollouts = groups.flatMap((group) => group.rollouts);
  return {
    groups,
    books: keepBooks(rollouts),
    sampledTokens: rollouts.reduce((sum, { trajectory }) => sum + trajectory.sampledTokens, 0),
    durationMs: performance.now() - begun,
  };
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
