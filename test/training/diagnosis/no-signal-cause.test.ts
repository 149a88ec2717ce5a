import fc from 'fast-check';
import { expect, test } from 'vitest';
import { RolloutGroup } from '../../../src/rollout/index.ts';
import { diagnose } from '../../../src/training/diagnosis/diagnose.ts';
import { compareGroups } from '../../../src/training/step-report.ts';
import { Trajectory } from '../../../src/trajectory/index.ts';
import { report } from './reports.ts';

interface Sampled {
  tokens: number[];
  reward: number;
  success?: number;
}

function trajectoryOf({ tokens, reward, success }: Sampled): Trajectory {
  const trajectory = new Trajectory();
  const { index } = trajectory.startCall();
  trajectory.record({
    index,
    messages: [{ role: 'user', content: 'a' }],
    tools: undefined,
    choice: {
      index: 0,
      message: { role: 'assistant', content: 'b' },
      finish_reason: 'stop',
      token_ids: tokens,
    },
    promptTokenIds: [1],
    model: 'base',
  });
  if (success !== undefined) trajectory.metrics.success = success;
  trajectory.reward = reward;
  return trajectory;
}

/** `null` stands for a failed rollout. */
function groupOf(index: number, rollouts: readonly (Sampled | null)[]): RolloutGroup {
  return new RolloutGroup({
    index,
    scenario: { index },
    rollouts: rollouts.map((sampled, at) => {
      const base = { index: at, attempt: 0, seed: 0, durationMs: 1 };
      if (sampled === null) {
        const failure = { code: 'Error', message: 'away' };
        return { ...base, status: 'failed', failure, trajectory: new Trajectory() };
      }
      const trajectory = trajectoryOf(sampled);
      return { ...base, status: 'completed', reward: sampled.reward, outcome: null, trajectory };
    }),
  });
}

/** How a scenario and a reply are scored; `reply` is a number of 0 to 1 that differs between replies. */
interface World {
  score: (rollout: { scenario: number; reply: number }) => { reward: number; success?: number };
  /** Rollouts of a group sample the same reply. */
  alike?: boolean;
}

const shape = fc.record({
  groups: fc.integer({ min: 3, max: 6 }),
  rollouts: fc.integer({ min: 2, max: 5 }),
  /** Whether the rollout at that index fails; the first three groups stay complete. */
  fails: fc.array(fc.boolean(), { minLength: 30, maxLength: 30 }),
  seed: fc.integer({ min: 1, max: 2 ** 30 }),
  scale: fc.double({ min: 0.01, max: 1000, noNaN: true }),
});

type Shape = typeof shape extends fc.Arbitrary<infer Value> ? Value : never;

/** The causes that are raised over five steps of a world. */
function causesOf({ score, alike = false }: World, { groups, rollouts, fails, seed }: Shape) {
  let replies = seed;
  const reports = Array.from({ length: 5 }, (_, step) => {
    const sampled = Array.from({ length: groups }, (_, scenario) => {
      const same = replies++;
      return groupOf(
        scenario,
        Array.from({ length: rollouts }, (_, at) => {
          if (scenario >= 3 && fails[(scenario * rollouts + at) % fails.length]) return null;
          const reply = alike ? same : replies++;
          return { tokens: [reply], ...score({ scenario, reply: (reply * 0.618034) % 1 }) };
        }),
      );
    });
    const trajectories = sampled.flatMap((group) => group.trajectories);
    return report(step, {
      groups,
      groupsWithSignal: sampled.filter((group) => group.toTrajectoryGroup().hasSignal).length,
      comparison: compareGroups(sampled),
      success: trajectories.some(({ metrics }) => metrics.success !== undefined)
        ? trajectories.filter(({ metrics }) => metrics.success === 1).length / trajectories.length
        : null,
    });
  });
  return diagnose({ reports }).flatMap(({ kind, cause }) => (kind === 'no_signal' ? [cause] : []));
}

const worlds: Record<string, (shape: Shape) => World> = {
  solved: ({ scale }) => ({ score: ({ scenario }) => ({ reward: scale * scenario, success: 1 }) }),
  unsolved: ({ scale }) => ({ score: () => ({ reward: scale, success: 0 }) }),
  always_or_never: ({ scale }) => ({
    score: ({ scenario }) => ({ reward: (scenario % 2) * scale, success: scenario % 2 }),
  }),
  constant_reward: ({ scale }) => ({ score: () => ({ reward: scale }) }),
  replies_alike: ({ scale }) => ({ score: ({ reply }) => ({ reward: reply * scale }), alike: true }),
  reward_ignores_replies: ({ scale }) => ({ score: ({ scenario }) => ({ reward: scenario * scale }) }),
};

test.each(Object.entries(worlds))('%s is found among groups with failed rollouts', (cause, world) => {
  fc.assert(
    fc.property(shape, (shape) => {
      expect(causesOf(world(shape), shape)).toEqual([cause]);
    }),
    { seed: 12, numRuns: 50 },
  );
});

test('a reward that depends on the reply has a signal, however it is distributed', () => {
  fc.assert(
    fc.property(shape, fc.integer({ min: 1, max: 5 }), (shape, exponent) => {
      const score: World['score'] = ({ scenario, reply }) => ({
        reward: shape.scale * (scenario + reply ** exponent),
      });
      expect(causesOf({ score }, shape)).toEqual([]);
    }),
    { seed: 13, numRuns: 50 },
  );
});

test('a comparison counts each group once, whatever the order of groups and rollouts', () => {
  const sampled = fc.record({
    tokens: fc.array(fc.integer({ min: 0, max: 1 }), { minLength: 1, maxLength: 2 }),
    reward: fc.constantFrom(0, 0.1 + 0.2, 0.3, 1),
    success: fc.constantFrom(0, 0.5, 1),
  });
  const groups = fc.array(fc.array(fc.option(sampled), { maxLength: 4 }), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(groups, (drawn) => {
      const found = compareGroups(drawn.map((rollouts, at) => groupOf(at, rollouts)));
      const reversed = drawn.toReversed().map((rollouts, at) => groupOf(at, rollouts.toReversed()));
      expect(compareGroups(reversed)).toEqual(found);
      const { compared, equalRewards, solved, unsolved, alike, equalRewardValues } = found;
      expect(compared).toBe(drawn.filter((rollouts) => rollouts.filter(Boolean).length >= 2).length);
      expect((solved ?? 0) + (unsolved ?? 0)).toBeLessThanOrEqual(compared);
      expect(Math.max(alike, equalRewards)).toBeLessThanOrEqual(compared);
      expect(equalRewardValues.length).toBeLessThanOrEqual(equalRewards);
    }),
    { seed: 14, numRuns: 200 },
  );
});
