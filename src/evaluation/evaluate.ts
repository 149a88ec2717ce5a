import type { z } from 'zod';
import { type Books, type RolloutGroup, type RunGroupsOptions, runGroups } from '../rollout/index.ts';
import type { Trajectory } from '../trajectory/index.ts';
import { average, type Estimate, estimate } from './estimate.ts';

export interface EvaluateOptions<Schema extends z.ZodType, Outcome>
  extends Omit<RunGroupsOptions<Schema, Outcome>, 'rolloutsPerGroup'> {
  /** Default 1. */
  rolloutsPerScenario?: number;
  /** Holds for every call, whatever the agent asks for. Default 0: greedy. `agent` leaves it to the agent. */
  temperature?: number | 'agent';
}

export interface ScenarioScore<Scenario> {
  scenario: Scenario;
  /** Mean over the scenario's completed rollouts; null where none completed. */
  reward: number | null;
  success: number | null;
  completed: number;
  rollouts: number;
}

export interface Evaluation<Scenario = unknown> {
  /** Name of the model that was evaluated. */
  policy: string;
  /** Over the scenarios with a completed rollout; null where there is none. */
  reward: Estimate | null;
  /** The metric `success`, where the environment has it. */
  success: Estimate | null;
  perScenario: ScenarioScore<Scenario>[];
  groups: RolloutGroup<Scenario>[];
  /** Rollouts that did not complete are counted here and in no mean. */
  books: Books;
  /** Wall-clock seconds. */
  seconds: number;
}

/**
 * Runs a model on scenarios and says how well it did. The agent is the same as in training; only the temperature is
 * set over it.
 * @throws ScenarioError for a scenario that does not fit.
 */
export async function evaluate<Schema extends z.ZodType, Outcome>(
  options: EvaluateOptions<Schema, Outcome>,
): Promise<Evaluation<z.output<Schema>>> {
  const { rolloutsPerScenario = 1, temperature = 0, model, ...rest } = options;
  const { groups, books, durationMs } = await runGroups({
    ...rest,
    rolloutsPerGroup: rolloutsPerScenario,
    model: temperature === 'agent' ? model : model.with({ temperature }),
  });
  const perScenario = groups.map((group) => ({
    scenario: group.scenario,
    reward: meanOrNull(group.trajectories.map((trajectory) => trajectory.reward)),
    success: meanOrNull(group.trajectories.map(successOf)),
    completed: group.trajectories.length,
    rollouts: group.rollouts.length,
  }));
  return {
    policy: model.name,
    reward: estimate(perScenario.flatMap(({ reward }) => reward ?? [])),
    success: estimate(perScenario.flatMap(({ success }) => success ?? [])),
    perScenario,
    groups,
    books,
    seconds: durationMs / 1000,
  };
}

/** The metric `success` as a number; null where the trajectory has none. */
export function successOf({ metrics }: Trajectory): number | null {
  return metrics.success === undefined ? null : Number(metrics.success);
}

function meanOrNull(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? average(known) : null;
}
