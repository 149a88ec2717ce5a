import { expect, test } from 'vitest';
import { earlyStop } from '../../src/index.ts';
import { RolloutGroup } from '../../src/rollout/index.ts';
import { rankCheckpoints } from '../../src/training/checkpoints.ts';
import { groupsToKeep } from '../../src/training/step-queue.ts';
import { Trajectory } from '../../src/trajectory/index.ts';

const validation = (checkpoint: number, reward: number, failedShare: number) => ({
  name: `step-${checkpoint}`,
  step: checkpoint,
  policy: `a/b/c:step${checkpoint}`,
  checkpoint,
  reward,
  success: reward,
  failedShare,
  usage: { promptTokens: 0, sampledTokens: 0 },
});

test('a validation in which more than half of the rollouts failed ranks no checkpoint', () => {
  const evaluations = [validation(1, 0.4, 0), validation(2, 0.9, 0.51), validation(3, 0.5, 0.5)];
  expect(rankCheckpoints(evaluations).map(({ step }) => step)).toEqual([3, 1]);
  expect(rankCheckpoints(evaluations, 'success').map(({ step }) => step)).toEqual([3, 1]);
  for (const metric of ['validation', 'validation_success'] as const) {
    expect(earlyStop({ metric, goal: 0.8 })({ reports: [], evaluations: evaluations.slice(0, 2) })).toBe(
      false,
    );
    expect(earlyStop({ metric, patience: 1 })({ reports: [], evaluations })).toBe(false);
  }
  expect(earlyStop({ metric: 'validation', goal: 0.5 })({ reports: [], evaluations })).toContain(
    'the goal was 0.5',
  );
});

test('an interrupted step keeps its groups with a completed rollout, and all groups once it may be logged', () => {
  const trajectory = new Trajectory();
  const base = { index: 0, attempt: 0, seed: 1, durationMs: 1, trajectory };
  const failed = { ...base, status: 'failed', failure: { code: 'Error', message: 'away' } } as const;
  const completed = { ...base, status: 'completed', reward: 1, outcome: 1 } as const;
  const group = (index: number, rollouts: RolloutGroup['rollouts']) =>
    [index, new RolloutGroup({ index, scenario: {}, rollouts })] as const;
  const some = new Map([group(0, [failed]), group(2, [failed, completed])]);
  const stays = (found: typeof some, isNext: boolean) => [
    ...groupsToKeep(found, { count: 3, isNext }).keys(),
  ];
  expect(stays(some, true)).toEqual([2]);
  const all = new Map([...some, group(1, [failed, failed])]);
  expect(stays(all, true)).toEqual([0, 2, 1]);
  expect(stays(all, false)).toEqual([2]);
  const none = new Map([group(0, [failed]), group(1, [failed]), group(2, [failed])]);
  expect(stays(none, true)).toEqual([]);
});
