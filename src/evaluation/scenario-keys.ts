import { type KeyFunction, scenarioKey } from '../environment/index.ts';

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
