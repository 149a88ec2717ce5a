import { ScenarioSet } from './scenario-set.ts';
import type { ScenarioSource } from './scenario-source.ts';

/** A source as it is; an array as its scenarios in an order that the seed decides, another one each epoch, for ever. */
export function toScenarioSource<Scenario>(
  scenarios: readonly Scenario[] | ScenarioSource<Scenario>,
  seed: number,
): ScenarioSource<Scenario> {
  return isArray(scenarios) ? ScenarioSet.of(scenarios).shuffle({ seed }).repeat() : scenarios;
}

function isArray<Item>(scenarios: readonly Item[] | ScenarioSource<Item>): scenarios is readonly Item[] {
  return Array.isArray(scenarios);
}
