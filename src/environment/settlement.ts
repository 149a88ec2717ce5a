import { type Credit, creditOf } from './credit.ts';
import type { GroupSettlement } from './environment.ts';
import type { WeightedGroupReward } from './rewards/reward.ts';
import { scoreGroup } from './rewards/score-group.ts';

/** What an environment does with a group that has ended; null where that is nothing. */
export function settlementOf<Scenario, Outcome>(
  groupRewards: ReadonlyMap<string, WeightedGroupReward<Scenario, Outcome>>,
  credit: Credit<Scenario, Outcome> | undefined,
): GroupSettlement<Scenario, Outcome> | null {
  if (groupRewards.size === 0 && !credit) return null;
  return {
    score: ({ timeoutMs, ...context }) => scoreGroup(groupRewards, context, { timeoutMs }),
    credit: async ({ scenario, signal, timeoutMs, member }) =>
      credit
        ? creditOf(credit, { scenario, signal, ...member, calls: member.trajectory.calls }, { timeoutMs })
        : null,
  };
}
