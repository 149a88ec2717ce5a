import { codeDigest, type KeyFunction, scenarioKey, titleOfScenario } from '../environment/index.ts';
import type { RolloutGroup } from '../rollout/index.ts';
import type { Trajectory } from '../trajectory/index.ts';
import { meanOrNull } from '../util/sums.ts';
import { type TokenUsage, tokensOf } from './cost.ts';

/** Success of a rollout: a boolean, or a number, which counts as a success from 1 up. Null if unknown. */
export type SuccessOf = (trajectory: Trajectory) => boolean | number | null;

export interface ScenarioScore<Scenario> {
  /** Identifies the scenario in other evaluations. */
  key: string;
  scenario: Scenario;
  /** What lists call it: the environment's `title` of it, else its first text. */
  title: string;
  /** Mean reward of the completed rollouts; null if none completed. */
  reward: number | null;
  /** Mean success of the judged rollouts; null without one. */
  success: number | null;
  completed: number;
  /** All rollouts, including those that did not complete. */
  rollouts: number;
  /** Completed rollouts whose success is known. */
  judged: number;
  /** Judged rollouts that succeeded: `true`, or a number of at least 1. */
  successes: number;
  /** Tokens of the evaluated model in all rollouts, completed or not; null if not all calls were counted. */
  tokens: TokenUsage | null;
  /** How long each completed rollout took, from its start until its agent returned: without its rewards. */
  milliseconds: number[];
}

/** The metric `success` as a number; null without it. */
export function successOf({ metrics }: Trajectory): number | null {
  return metrics.success === undefined ? null : Number(metrics.success);
}

/** Tells evaluations apart whose success is judged in different ways. */
export const nameOfSuccess = (isSuccess: SuccessOf): string =>
  isSuccess === successOf ? 'metric success' : `isSuccess ${codeDigest(isSuccess)}`;

export function scoreScenario<Scenario>(
  { scenario, title, rollouts, trajectories }: RolloutGroup<Scenario>,
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
    title: titleOfScenario(scenario, title),
    reward: meanOrNull(rewards),
    success: meanOrNull(known),
    completed: rollouts.filter(({ status }) => status === 'completed').length,
    rollouts: rollouts.length,
    judged: known.length,
    successes: known.filter((success) => success >= 1).length,
    tokens: tokensOf(rollouts),
    milliseconds: rollouts.flatMap(({ status, trajectory }) =>
      status === 'completed' ? Number(trajectory.milliseconds.toFixed(3)) : [],
    ),
  };
}

/** A unique key for each scenario: the second scenario with a key gets `#2`, or the next free number. */
export function scenarioKeys<Scenario>(
  scenarios: readonly Scenario[],
  key: KeyFunction<Scenario> = keyOrIndex(scenarios),
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

/** The index is the key of a scenario that is not JSON: a schema may produce any value. */
function keyOrIndex<Scenario>(scenarios: readonly Scenario[]): KeyFunction<Scenario> {
  return (scenario) => {
    try {
      return scenarioKey(scenario);
    } catch {
      return `index ${scenarios.indexOf(scenario)}`;
    }
  };
}
