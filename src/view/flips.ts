import { type ComparedScores, comparePair, scenarioKeys } from '../evaluation/index.ts';
import { meanOrNull } from '../util/sums.ts';
import type { Flip, Flips } from './api.ts';
import type { GroupFacts } from './group-file.ts';
import type { FoundGroups } from './step-detail.ts';

/** One side of a comparison. */
export interface Side {
  found: FoundGroups;
  policy: string | null;
}

interface Scored extends ComparedScores {
  /** By the key of the scenario. */
  groups: ReadonlyMap<string, GroupFacts>;
}

/** Compares two evaluations, or two steps, scenario by scenario: what became better and worse from a to b. */
export function flipsOf(a: Side, b: Side): Flips {
  const [left, right] = [scoredOf(a), scoredOf(b)];
  const isJudged = (side: Scored) => side.perScenario.some(({ success }) => success !== null);
  const measure = isJudged(left) && isJudged(right) ? 'success' : 'reward';
  const { difference, test, pairs, wins, losses, ties, onlyInA, onlyInB } = comparePair(left, right, {
    measure,
  });
  return {
    a: { run: a.found.run.id, which: a.found.which, policy: a.policy },
    b: { run: b.found.run.id, which: b.found.which, policy: b.policy },
    measure,
    difference: difference && {
      mean: difference.mean,
      low: difference.interval95?.low ?? null,
      high: difference.interval95?.high ?? null,
    },
    pValue: test?.pValue ?? null,
    wins,
    losses,
    ties,
    flips: pairs
      .filter((pair) => pair.difference !== 0)
      .sort((x, y) => Math.abs(y.difference) - Math.abs(x.difference))
      .flatMap((pair) => flipOf(pair, left.groups.get(pair.key), right.groups.get(pair.key))),
    onlyInA: onlyInA.length,
    onlyInB: onlyInB.length,
  };
}

function flipOf(
  { a, b, difference }: { a: number; b: number; difference: number },
  groupA: GroupFacts | undefined,
  groupB: GroupFacts | undefined,
): Flip[] {
  if (!groupA || !groupB) return [];
  const first = ({ rollouts }: GroupFacts) => rollouts.find(({ reward }) => reward !== null)?.rollout ?? 0;
  return [
    {
      title: groupA.title,
      scenario: groupA.scenario,
      a,
      b,
      difference,
      groupA: groupA.group,
      groupB: groupB.group,
      rolloutA: first(groupA),
      rolloutB: first(groupB),
    },
  ];
}

/** The environment is not compared: scenarios with the same key are the same, also under another name of it. */
function scoredOf({ found, policy }: Side): Scored {
  const { groups } = found.file;
  const keys = scenarioKeys(
    groups.map(({ key }) => key),
    (key) => key,
  );
  return {
    environment: '',
    policy: policy ?? '',
    perScenario: groups.map((group, at) => scoreOf(group, keys[at] ?? group.key)),
    groups: new Map(groups.map((group, at) => [keys[at] ?? group.key, group])),
  };
}

function scoreOf({ rollouts }: GroupFacts, key: string): ComparedScores['perScenario'][number] {
  const rewards = rollouts.flatMap(({ reward }) => reward ?? []);
  const successes = rollouts.flatMap(({ reward, success }) => (reward === null ? [] : (success ?? [])));
  return {
    key,
    scenario: null,
    reward: meanOrNull(rewards),
    success: meanOrNull(successes),
    completed: rewards.length,
    judged: successes.length,
  };
}
