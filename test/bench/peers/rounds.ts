/**
 * Measures several things in turn, `rounds` times: a, b, c, a, b, c, ... A machine whose speed drifts then drifts for
 * all of them. What throws is told on standard error and not measured any more: it has no values. The first must not.
 */
export async function measureInTurn<Name extends string, Value>(
  rounds: number,
  measures: Readonly<Record<Name, () => Promise<Value>>>,
): Promise<Record<Name, Value[]>> {
  const names = Object.keys(measures) as Name[];
  const values = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, Value[]>;
  const failed = new Set<Name>();
  for (let round = 0; round < rounds; round++)
    for (const name of names) {
      if (failed.has(name)) continue;
      try {
        values[name].push(await measures[name]());
      } catch (error) {
        if (name === names[0]) throw error;
        failed.add(name);
        values[name] = [];
        console.error(`${name} cannot be measured: ${error instanceof Error ? error.message : error}`);
      }
    }
  return values;
}

/** The middle value, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** Median of the ratios within each round, which the drift between rounds does not change. */
export function medianRatio(values: readonly number[], others: readonly number[]): number {
  return median(values.map((value, round) => value / (others[round] ?? Number.NaN)));
}
