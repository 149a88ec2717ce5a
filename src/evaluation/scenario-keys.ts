import { type KeyFunction, scenarioKey } from '../environment/index.ts';

/** A key for each scenario, all of them different: the second of the same key ends in `#2`. */
export function scenarioKeys<Scenario>(
  scenarios: readonly Scenario[],
  key: KeyFunction<Scenario> = keyOrPlace(scenarios),
): string[] {
  const seen = new Map<string, number>();
  return scenarios.map((scenario) => {
    const name = String(key(scenario));
    const times = (seen.get(name) ?? 0) + 1;
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
