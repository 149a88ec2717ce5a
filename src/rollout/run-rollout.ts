import { setImmediate as nextTick } from 'node:timers/promises';
import type { z } from 'zod';
import {
  checkTrajectory,
  type Environment,
  EnvironmentError,
  isOurs,
  type OpenEnvironment,
  runAgent,
  watchAiSdkTools,
} from '../environment/index.ts';
import { forRollout, type RolloutModel, runWithModel } from '../model/index.ts';
import {
  runInTrajectory,
  runOutsideTrajectory,
  type Trajectory,
  watchOtherModels,
} from '../trajectory/index.ts';
import { cleanUp } from './clean-up.ts';
import { Interruption } from './interruption.ts';
import { settleUnanswered, whyNothingRecorded } from './missing-answers.ts';
import { adviceForOwnModel } from './own-model.ts';
import {
  type Rollout,
  type RolloutFailure,
  toCancellation,
  toFailure,
  type UnrewardedEnd,
} from './rollout.ts';
import { inRolloutSpan } from './rollout-span.ts';
import {
  hasPlayed,
  meanReward,
  openTrajectories,
  type RolloutTrajectories,
  type SeatPlayer,
  seatsForAgents,
} from './seats.ts';
import { type CodeOwner, guardUnawaited } from './unawaited.ts';

export interface RunRolloutOptions<Schema extends z.ZodType, Outcome> {
  environment: Environment<Schema, Outcome>;
  /** Parsed by the environment's schema. */
  scenario: z.output<Schema>;
  /** The model that the agent calls. If it is pinned, a call answered by another checkpoint fails the rollout. */
  model: RolloutModel;
  /** The models of seats that others play. Default: `model` plays every seat. */
  players?: Readonly<Record<string, SeatPlayer>> | undefined;
  /** Index of its group in the step; `index` is the rollout's index in the group. */
  group: number;
  index: number;
  /** Number of earlier attempts at this index. */
  attempt: number;
  seed: number;
  /** Deadline of set-up, rollout and rewards together, in milliseconds. The clean-up has its own. */
  timeoutMs: number;
  /** Deadline of each reward, in milliseconds. */
  rewardTimeoutMs: number;
  /** Whether a call that cannot be trained on fails the rollout (`error`) or is left out of it (`warn`). */
  onUnexpectedCall: 'error' | 'warn';
  /** Cancels the rollout. */
  signal: AbortSignal | undefined;
}

type End<Outcome> = { status: 'completed'; reward: number; outcome: Outcome } | UnrewardedEnd;

/**
 * Runs one rollout. Even if functions of the environment never return, it ends completed, failed or cancelled within
 * its deadline, and is cleaned up. Never throws.
 */
export function runRollout<Schema extends z.ZodType, Outcome>(
  options: RunRolloutOptions<Schema, Outcome>,
): Promise<Rollout<Outcome>> {
  return inRolloutSpan(options, () => runWithinSpan(options));
}

/** Runs a rollout whose span is the current one. Never throws. */
export function runWithinSpan<Schema extends z.ZodType, Outcome>(
  options: RunRolloutOptions<Schema, Outcome>,
): Promise<Rollout<Outcome>> {
  watchAiSdkTools();
  watchOtherModels();
  const owner: CodeOwner = { environment: options.environment.name, group: options.group };
  return guardUnawaited(owner, () => runToEnd(options, owner));
}

async function runToEnd<Schema extends z.ZodType, Outcome>(
  options: RunRolloutOptions<Schema, Outcome>,
  owner: CodeOwner,
): Promise<Rollout<Outcome>> {
  const { environment, scenario, index, attempt, seed, timeoutMs, signal } = options;
  const startedAt = performance.now();
  const interruption = new Interruption(timeoutMs, signal);
  const trajectories = openTrajectories(options, {
    signal: interruption.calls,
    agentSignal: interruption.agent.signal,
  });
  const { main: trajectory, seats, all } = trajectories;
  owner.trajectory = trajectory;

  const end = (ended: End<Outcome>): Rollout<Outcome> => {
    const durationMs = performance.now() - startedAt;
    return { index, attempt, seed, trajectory, ...(seats ? { seats } : {}), durationMs, ...ended };
  };
  if (signal?.aborted) {
    for (const one of all) one.close();
    interruption.dispose();
    return end({ status: 'cancelled', failure: toCancellation(signal) });
  }
  const opening = runOutsideTrajectory(async () =>
    environment.open({ scenario, seed, signal: interruption.signal }),
  );
  const scored = await Promise.race([
    runAndReward(options, opening, trajectories, interruption).catch(
      (error): End<Outcome> => ({ status: 'failed', failure: failureOf(error, trajectories) }),
    ),
    interruption.happened,
  ]);
  for (const one of all) one.close();
  interruption.dispose();
  if (environment.cleanupTimeoutMs !== null)
    await runOutsideTrajectory(() => cleanUp(opening, environment.cleanupTimeoutMs ?? 0, trajectory));
  const ended = checked(scored, all);
  if (!seats && ended.status === 'completed') trajectory.reward = ended.reward;
  if (seats && ended.status !== 'completed') for (const one of all) one.reward = null;
  return end(ended);
}

/** The end of a rollout: failed if a service would refuse one of its trajectories. */
function checked<Outcome>(ended: End<Outcome>, trajectories: readonly Trajectory[]): End<Outcome> {
  if (ended.status !== 'completed') return ended;
  try {
    for (const trajectory of trajectories) checkTrajectory(trajectory);
    return ended;
  } catch (error) {
    return { status: 'failed', failure: toFailure(error) };
  }
}

/** The failure of a rollout. It names the seat and the model whose call had no answer. */
function failureOf(error: unknown, { seats, all }: RolloutTrajectories): RolloutFailure {
  const failure = toFailure(error);
  const hasUnanswered = (one: Trajectory) => one.observations.unansweredCalls.length > 0;
  const isPolicyCalled = all.some((one) => hasPlayed({ trajectory: one }) || hasUnanswered(one));
  const advice = isOurs(error) ? null : adviceForOwnModel(error, isPolicyCalled);
  if (advice !== null) return { ...failure, message: `${advice} Its error: ${failure.message}` };
  // An error of a reward is not about the seat's call.
  const isOfCall = !(error instanceof EnvironmentError);
  const away = isOfCall ? seats?.find(({ trajectory }) => hasUnanswered(trajectory)) : undefined;
  if (!away) return failure;
  return { ...failure, message: `Seat "${away.seat}", played by ${away.model}: ${failure.message}` };
}

async function runAndReward<Schema extends z.ZodType, Outcome>(
  options: RunRolloutOptions<Schema, Outcome>,
  opening: Promise<OpenEnvironment<Outcome>>,
  { main: trajectory, seats, all }: RolloutTrajectories,
  interruption: Interruption,
): Promise<End<Outcome>> {
  const { environment, model: rolloutModel, onUnexpectedCall, rewardTimeoutMs } = options;
  const { agent: controller, signal } = interruption;
  const opened = await opening;
  const model = forRollout(rolloutModel, onUnexpectedCall);
  const agent = { model, trajectory, signal: controller.signal };
  const { limits } = environment;
  const outcome = seats
    ? await runOutsideTrajectory(() =>
        runAgent({ opened, agent: { ...agent, seats: seatsForAgents(options, seats) }, controller, limits }),
      )
    : await runInTrajectory(trajectory, () =>
        runWithModel(model, () => runAgent({ opened, agent, controller, limits })),
      );
  // A call that the agent did not await is neither trained on nor visible to rewards.
  for (const one of all) one.close();
  interruption.endCalls();
  // A call that the agent started just now without awaiting it reaches the trajectory's counters in the next tick.
  await nextTick();
  for (const one of all) settleUnanswered(one, environment.onUnansweredCall);
  const unfinished = all.find(
    (one) => !hasPlayed({ trajectory: one }) && one.observations.unfinishedCalls > 0,
  );
  if (unfinished || !all.some((one) => hasPlayed({ trajectory: one })))
    throw whyNothingRecorded(model.name, unfinished ?? trajectory);
  const context = { signal, timeoutMs: rewardTimeoutMs };
  if (!seats) {
    const reward = await runOutsideTrajectory(() => opened.score(outcome, { ...context, trajectory }));
    return { status: 'completed', reward, outcome };
  }
  const rewards: number[] = [];
  for (const { seat, trajectory: own } of seats) {
    rewards.push(
      await runOutsideTrajectory(() => opened.score(outcome, { ...context, trajectory: own, seat })),
    );
  }
  for (const [at, { trajectory: own }] of seats.entries()) own.reward = rewards[at] ?? null;
  return { status: 'completed', reward: meanReward(seats), outcome };
}
