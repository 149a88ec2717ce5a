/*
 * How candidates are chosen, as GEPA does it (Agrawal et al., arXiv 2507.19457; the package `gepa`). Pure functions: all
 * randomness comes from their arguments, so a resumed run makes the same choices.
 */
import { deriveSeed, randomSource } from '../trajectory/index.ts';
import { largestOf } from '../util/extremes.ts';
import { meanOf, sumOf } from '../util/sums.ts';

/** Rewards of each candidate, by validation scenario. All candidates have a reward for each scenario. */
type Rewards = readonly (readonly number[])[];

/** For each scenario, the candidates with the largest reward. */
export function frontOf(rewards: Rewards): number[][] {
  const scenarios = rewards[0]?.length ?? 0;
  return Array.from({ length: scenarios }, (_, at) => {
    const best = largestOf(rewards.map((own) => own[at] ?? Number.NEGATIVE_INFINITY));
    return rewards.flatMap((own, candidate) => (own[at] === best ? [candidate] : []));
  });
}

/**
 * How many scenarios each candidate wins or shares, without candidates that others make unnecessary: on each scenario
 * that they win, one that stays wins as well. The candidates with the smallest mean go first.
 */
export function winsOf(rewards: Rewards): Map<number, number> {
  const front = frontOf(rewards);
  const means = rewards.map(meanOf);
  const left = new Set([...new Set(front.flat())].sort((a, b) => (means[a] ?? 0) - (means[b] ?? 0) || a - b));
  const isUnnecessary = (candidate: number) =>
    front.every(
      (winners) =>
        !winners.includes(candidate) || winners.some((other) => other !== candidate && left.has(other)),
    );
  for (let removed = true; removed; ) {
    const next = [...left].find(isUnnecessary);
    removed = next !== undefined && left.delete(next);
  }
  return new Map(
    [...left]
      .sort((a, b) => a - b)
      .map((candidate) => [candidate, front.filter((winners) => winners.includes(candidate)).length]),
  );
}

/** Draws a candidate, with a probability in proportion to its wins. `draw` is in [0, 1). */
export function drawCandidate(rewards: Rewards, draw: number): number {
  const tickets = [...winsOf(rewards)].flatMap(([candidate, wins]) => Array<number>(wins).fill(candidate));
  return tickets[Math.floor(draw * tickets.length)] ?? 0;
}

/** The candidate with the largest mean reward; of equal ones, the first. */
export function bestOf(rewards: Rewards): number {
  const means = rewards.map(meanOf);
  return means.indexOf(largestOf(means));
}

/**
 * The scenarios of an iteration, by index. Each pass over all scenarios has an order of its own; a pass that does not
 * divide is filled up with the scenarios that it began with.
 * @param iteration From 0.
 */
export function minibatchOf(
  iteration: number,
  { seed, size, scenarios }: { seed: number; size: number; scenarios: number },
): number[] {
  const perPass = Math.ceil(scenarios / size);
  const pass = Math.floor(iteration / perPass);
  const random = randomSource(deriveSeed(seed, pass));
  const order = Array.from({ length: scenarios }, (_, index) => index);
  for (let at = order.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [order[at], order[other]] = [order[other] ?? 0, order[at] ?? 0];
  }
  const start = (iteration % perPass) * size;
  return Array.from({ length: size }, (_, at) => order[(start + at) % scenarios] ?? 0);
}

/**
 * Whether a proposal is worth a validation: it has a reward for every scenario for which its parent has one, and their
 * sum is larger. Null: no rollout of the scenario completed.
 */
export function isBetter(
  before: readonly (number | null)[],
  after: readonly (number | null)[],
): { isBetter: boolean; because: string | null } {
  const lost = before.filter((reward, at) => reward !== null && after[at] === null).length;
  if (lost > 0) return { isBetter: false, because: `${lost} of ${before.length} scenarios did not complete` };
  const both = before.flatMap((reward, at) => (reward === null ? [] : [[reward, after[at] ?? 0] as const]));
  return { isBetter: sumOf(both.map(([, now]) => now)) > sumOf(both.map(([was]) => was)), because: null };
}

/** Texts take turns for each candidate: a candidate goes on where its parent was. */
export function nextText(
  names: readonly string[],
  candidate: number,
  history: readonly { parent: number | null; text: string | null; candidate: { number: number } | null }[],
): string {
  const turns = new Map<number, number>();
  for (const { parent, text, candidate: made } of history) {
    if (parent !== null && text !== null) turns.set(parent, (turns.get(parent) ?? 0) + 1);
    if (made) turns.set(made.number, parent === null ? 0 : (turns.get(parent) ?? 0));
  }
  return names[(turns.get(candidate) ?? 0) % names.length] ?? '';
}
