import { scenarioKey } from '../../environment/index.ts';
import { isObject } from '../../util/json.ts';
import { CollectedScenarios, openingKey, type UnreadReason } from './collected-scenarios.ts';
import { filesOf, valuesOf } from './read-files.ts';
import { recordedScenario } from './recorded-scenario.ts';

interface ReadScenariosOptions {
  /**
   * Gets each scenario, a RecordedScenario or what a run had as its scenario. Returns what to write in its place; null
   * leaves it out. The place to remove personal data.
   */
  map?: (scenario: unknown) => unknown;
  /** Share of the scenarios, the newest, that validates. */
  validation: number;
}

interface ScenariosReport {
  files: number;
  /** Model calls and groups of runs that were read. */
  read: number;
  /** Different openings, or scenarios of runs. */
  different: number;
  /** Scenarios that `map` left out, and that were equal to others after it. */
  dropped: number;
  merged: number;
  train: number;
  validation: number;
  /** What could not be read, the most frequent first. */
  unread: UnreadReason[];
}

interface ReadScenarios {
  train: unknown[];
  validation: unknown[];
  report: ScenariosReport;
}

/**
 * Reads recorded conversations and the groups of runs. The calls of a conversation, and conversations that begin the
 * same, are one scenario. Conversations and traces stay together; the newest of them validate. Where there are no times,
 * the order of files and lines counts.
 */
export async function readScenarios(
  sources: readonly string[],
  { map = (scenario) => scenario, validation }: ReadScenariosOptions,
): Promise<ReadScenarios> {
  const files = (await Promise.all(sources.map(filesOf))).flat();
  const collected = new CollectedScenarios();
  for (const file of files) for await (const { value, where } of valuesOf(file)) collected.add(value, where);
  const entries = new Map<string, Entry>();
  const counts = { dropped: 0, merged: 0 };
  for (const { scenario, group } of collected.inOrder()) {
    const mapped = await map(scenario);
    if (mapped === null || mapped === undefined) {
      counts.dropped++;
      continue;
    }
    const [key, whole] = identified(mapped);
    if (entries.has(key)) counts.merged++;
    else entries.set(key, { scenario: whole, group: group ?? key });
  }
  const parts = splitByTime([...entries.values()], validation);
  return {
    ...parts,
    report: {
      files: files.length,
      read: collected.read,
      different: collected.different,
      ...counts,
      train: parts.train.length,
      validation: parts.validation.length,
      unread: collected.unread(),
    },
  };
}

interface Entry {
  scenario: unknown;
  group: string;
}

/** The key of a scenario after `map`. A recorded scenario gets a hash of what is left, also as its id. */
function identified(scenario: unknown): [key: string, scenario: unknown] {
  if (!isObject(scenario) || !recordedScenario.safeParse(scenario).success)
    return [scenarioKey(scenario), scenario];
  const id = openingKey(scenario);
  return [id, { ...scenario, id }];
}

/** The newest groups validate: as many as bring the number of their scenarios nearest to the share. */
function splitByTime(entries: readonly Entry[], share: number): Pick<ReadScenarios, 'train' | 'validation'> {
  const target = entries.length * share;
  // A group is as old as its first scenario.
  const groups = [...Map.groupBy(entries, ({ group }) => group).values()];
  let count = 0;
  let from = groups.length;
  for (let at = groups.length - 1; at >= 0; at--) {
    const size = groups[at]?.length ?? 0;
    if (Math.abs(count + size - target) > Math.abs(count - target)) break;
    count += size;
    from = at;
  }
  const scenariosOf = (some: readonly Entry[][]) => some.flat().map(({ scenario }) => scenario);
  return { train: scenariosOf(groups.slice(0, from)), validation: scenariosOf(groups.slice(from)) };
}
