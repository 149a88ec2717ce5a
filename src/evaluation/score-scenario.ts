import { type KeyFunction, scenarioKey } from '../environment/index.ts';
import type { RolloutGroup } from '../rollout/index.ts';
import type { Trajectory } from '../trajectory/index.ts';
import { average } from './estimate.ts';

/** Whether a rollout succeeded; null where that is not known. */
export type SuccessOf = (trajectory: Trajectory) => boolean | number | null;

export interface ScenarioScore<Scenario> {
  /** Pairs the scenario with itself in other evaluations. */
  key: string;
  scenario: Scenario;
  /** Mean over the scenario's completed rollouts; null where none completed. */
  reward: number | null;
  /** Mean of the successes; null where none is known. */
  success: number | null;
  completed: number;
  /** Attempts, those that did not complete too. */
  rollouts: number;
  /** Completed rollouts whose success is known. */
  judged: number;
  /** Those of them that succeeded: `true`, or a number of at least 1. */
  successes: number;
}

/** The metric `success` as a number; null where the trajectory has none. */
export function successOf({ metrics }: Trajectory): number | null {
  return metrics.success === undefined ? null : Number(metrics.success);
}

export function scoreScenario<Scenario>(
  { scenario, rollouts, trajectories }: RolloutGroup<Scenario>,
  { key, isSuccess }: { key: string; isSuccess: SuccessOf },
): ScenarioScore<Scenario> {
  const rewards = trajectories.flatMap(({ reward }) => reward ?? []);
  const known = trajectories
    .map(isSuccess)
    .filter((success) => success !== null)
    .map(Number);
  return {
    key,
    scenario,
    reward: meanOrNull(rewards),
    success: meanOrNull(known),
    completed: trajectories.length,
    rollouts: rollouts.length,
    judged: known.length,
    successes: known.filter((success) => success >= 1).length,
  };
}

function meanOrNull(values: readonly number[]): number | null {
  return values.length > 0 ? average(values) : null;
}

/** A key for each scenario, all of them different: the second of the same key ends in `#2`, or the next free number. */
export function scenarioKeys<Scenario>(
  scenarios: readonly Scenario[],
  key: KeyFunction<Scenario> = keyOrPlace(scenarios),
): string[] {
  const names = scenarios.map((scenario) => String(key(scenario)));
  const taken = new Set(names);
  const seen = new Map<string, number>();
  return names.map((name) => {
    let times = (seen.get(name) ?? 0) + 1;
    while (times > 1 && taken.has(`${name}#${times}`)) times++;
    seen.set(name, times);
    return times === 1 ? name : `${name}#${times}`;
  });
}

/** What a schema gives need not be JSON; such a scenario is known by its place. */
function keyOrPlace<Scenario>(scenarios: readonly Scenario[]): KeyFunction<Scenario> {
  return (scenario) => {
    try {
      return scenarioKey(scenario);
    } catch {
      return `place ${scenarios.indexOf(scenario)}`;
    }
  };
}
