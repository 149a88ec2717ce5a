import type { z } from 'zod';
import { MartingaleError } from '../contract/index.ts';
import {
  checkTrajectory,
  type Environment,
  EnvironmentError,
  type GroupScoring,
} from '../environment/index.ts';
import { isSendableReward, runOutsideTrajectory, sendableRewards } from '../trajectory/index.ts';
import {
  type Rollout,
  type RolloutFailure,
  rolloutOfSeat,
  seatNotPlayed,
  toCancellation,
  toFailure,
  withoutReward,
} from './rollout.ts';
import { meanReward } from './seats.ts';
import { guardUnawaited } from './unawaited.ts';

interface SettleGroupOptions<Schema extends z.ZodType, Outcome> {
  environment: Environment<Schema, Outcome>;
  scenario: z.output<Schema>;
  /** Index of the group in its step, if it is part of one. */
  group?: number;
  /** The seat whose trajectories the rollouts have. Default: all seats, or an environment with one agent. */
  seat?: string | undefined;
  /** All rollouts of the group, finished. */
  rollouts: readonly Rollout<Outcome>[];
  /** Deadline of each group reward, and of each trajectory's credit, in milliseconds. */
  timeoutMs: number;
  /** Aborts scoring. Completed rollouts then become cancelled, because their rewards are unknown. */
  signal: AbortSignal | undefined;
}

type Completed<Outcome> = Extract<Rollout<Outcome>, { status: 'completed' }>;

/**
 * Adds group rewards and the credit of each call, which need the whole group. If a group reward fails, all completed
 * rollouts of the group become failed; if credit fails, only its own rollout does. Never throws.
 */
export async function settleGroup<Schema extends z.ZodType, Outcome>(
  options: SettleGroupOptions<Schema, Outcome>,
): Promise<Rollout<Outcome>[]> {
  const { environment, rollouts } = options;
  const { groupScoring } = environment;
  if (!groupScoring) return [...rollouts];
  if (!rollouts.some(({ seats }) => seats)) return settleOne(groupScoring, options);
  let settled = [...rollouts];
  for (const at of environment.seats.keys()) {
    if (!settled.some(({ seats }) => seats?.[at]?.trains)) continue;
    const ofSeat = await settleOne(groupScoring, {
      ...options,
      seat: environment.seats[at],
      rollouts: settled.map((rollout) => rolloutOfSeat(rollout, at)),
    });
    settled = settled.map((rollout, position) => {
      const end = ofSeat[position];
      // A seat without a turn has no reward that could fail.
      const isUndone =
        rollout.status === 'completed' &&
        end !== undefined &&
        end.status !== 'completed' &&
        end.failure.code !== seatNotPlayed;
      return isUndone ? withoutReward(rollout, { status: end.status, failure: end.failure }) : rollout;
    });
  }
  return settled.map((rollout) =>
    rollout.status === 'completed' && rollout.seats
      ? { ...rollout, reward: meanReward(rollout.seats) }
      : rollout,
  );
}

/** Settles the group of an environment with one agent, or of one seat. */
async function settleOne<Schema extends z.ZodType, Outcome>(
  groupScoring: GroupScoring<z.output<Schema>, Outcome>,
  options: SettleGroupOptions<Schema, Outcome>,
): Promise<Rollout<Outcome>[]> {
  const { environment, rollouts } = options;
  const completed = rollouts.filter((rollout) => rollout.status === 'completed');
  if (completed.length === 0) return [...rollouts];
  const owner = { environment: environment.name, group: options.group };
  const settled = await guardUnawaited(owner, () =>
    runOutsideTrajectory(() => settle(groupScoring, options, completed)),
  );
  return rollouts.map((rollout) => settled.get(rollout) ?? rollout);
}

async function settle<Schema extends z.ZodType, Outcome>(
  groupScoring: GroupScoring<z.output<Schema>, Outcome>,
  { scenario, seat, timeoutMs, signal = new AbortController().signal }: SettleGroupOptions<Schema, Outcome>,
  completed: readonly Completed<Outcome>[],
): Promise<Map<Rollout<Outcome>, Rollout<Outcome>>> {
  const settled = new Map<Rollout<Outcome>, Rollout<Outcome>>();
  const context = { scenario, ...(seat === undefined ? {} : { seat }), signal, timeoutMs };
  const undo = (rollout: Completed<Outcome>, thrown: unknown) =>
    settled.set(
      rollout,
      withoutReward(
        rollout,
        signal.aborted
          ? { status: 'cancelled', failure: cancellation(signal) }
          : { status: 'failed', failure: toFailure(thrown) },
      ),
    );
  let added: number[];
  try {
    added = await groupScoring.score({ ...context, members: completed });
  } catch (error) {
    for (const rollout of completed) undo(rollout, error);
    return settled;
  }
  const finish = async (rollout: Completed<Outcome>, at: number) => {
    const { trajectory } = rollout;
    const reward = rollout.reward + (added[at] ?? 0);
    try {
      const credited = await groupScoring.credit({ ...context, member: { ...rollout, reward } });
      if (!isSendableReward(reward))
        throw new EnvironmentError(
          'group_reward_failed',
          `The reward with the group rewards is ${reward}, and a rollout's reward must be ${sendableRewards}. Scale the ` +
            'group rewards or their weights down. The rollout counts as failed.',
        );
      checkTrajectory(trajectory);
      if (credited) trajectory.creditCalls(credited);
      trajectory.reward = reward;
      settled.set(rollout, { ...rollout, reward });
    } catch (error) {
      undo(rollout, error);
    }
  };
  // In parallel: each has its own deadline, and one that hangs does not delay the others.
  await Promise.all(completed.map(finish));
  return settled;
}

/** A group that ended itself, for example at its deadline, keeps its own reason. */
function cancellation(signal: AbortSignal): RolloutFailure {
  return MartingaleError.isInstance(signal.reason) ? toFailure(signal.reason) : toCancellation(signal);
}
