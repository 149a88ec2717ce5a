import { withoutStep } from '../contract/index.ts';
import type { OpponentResult, StepReport } from '../progress/index.ts';
import {
  hasPlayed,
  isTrainedSeat,
  type OpponentPast,
  Opponents,
  type RolloutGroup,
  type SeatModel,
  type SeatModels,
} from '../rollout/index.ts';
import { meanOf } from '../util/sums.ts';
import type { RunState } from './run-state.ts';

/** What the pools of a run draw from in a step. It depends on the step alone, so a resumed run draws the same. */
function pastOf(
  step: number,
  { learners: [{ policySteps }] }: Pick<RunState, 'learners'>,
  reports: readonly StepReport[],
  maxStaleness: number,
): OpponentPast {
  // Later steps may have finished when a step runs again after an interruption.
  const known = Math.max(0, step - maxStaleness);
  return {
    step,
    policySteps: policySteps.slice(0, known + 1),
    // A checkpoint that met itself was not beaten.
    results: reports
      .filter((report) => report.step < known)
      .flatMap(({ opponents, policy }) => opponents.filter(({ model }) => model !== policy)),
  };
}

interface PoolsOptions {
  seats: SeatModels | undefined;
  state: Pick<RunState, 'finishedSteps' | 'learners'>;
  reports: readonly StepReport[];
  maxStaleness: number;
}

/** Who plays the seats in a step. */
export function seatsOfStep(
  step: number,
  { seats, state, reports, maxStaleness }: PoolsOptions,
): SeatModels | undefined {
  if (!seats) return undefined;
  const past = pastOf(step, state, reports, maxStaleness);
  return Object.fromEntries(
    Object.entries(seats).map(([seat, model]): [string, SeatModel] => {
      if (model instanceof Opponents) {
        const results = past.results.filter((result) => result.seat === seat);
        return [seat, model.after({ ...past, results })];
      }
      if (!isTrainedSeat(model)) return [seat, model];
      const steps =
        state.learners.find(({ name }) => name === withoutStep(model.model.name))?.policySteps ?? [];
      const sampled = steps[Math.max(0, step - maxStaleness)] ?? steps.at(-1) ?? 0;
      return [seat, { model: model.model.at(sampled), trains: true }];
    }),
  );
}

/**
 * Who plays the seats in a validation after this many steps: the models that it names, and learners at the newest
 * checkpoint of that time.
 */
export function seatsOfValidation(
  seats: SeatModels | undefined,
  {
    trained,
    state,
    finishedSteps,
  }: Pick<PoolsOptions, 'state'> & {
    trained: SeatModels | undefined;
    finishedSteps: number;
  },
): SeatModels | undefined {
  const learners = Object.entries(trained ?? {}).filter(([, model]) => isTrainedSeat(model));
  if (learners.length === 0) return seats;
  const pinned = seatsOfStep(finishedSteps, {
    seats: Object.fromEntries(learners),
    state,
    reports: [],
    maxStaleness: 0,
  });
  return { ...pinned, ...seats };
}

/** Checkpoints that pools may draw in a step that is not finished or comes next. They must not be deleted. */
export function checkpointsOfPools(options: PoolsOptions): number[] {
  const { state, maxStaleness } = options;
  const steps = Array.from({ length: maxStaleness + 2 }, (_, ahead) => state.finishedSteps + ahead);
  return steps.flatMap((step) =>
    Object.values(seatsOfStep(step, options) ?? {}).flatMap((model) =>
      model instanceof Opponents ? model.checkpoints : [],
    ),
  );
}

/** Whether it is a group of an environment with one agent, or of a seat that the model of the run plays. */
export const isOfPolicy = ({ seat }: RolloutGroup): boolean => seat === undefined || seat.isPolicy;

/** The groups of a step that are logged with the model of the run. */
export const groupsToLog = (groups: readonly RolloutGroup[]): RolloutGroup[] =>
  groups.flatMap((group) => group.bySeat()).filter(isOfPolicy);

/** How the model did against each opponent, in the order of seats and names. */
export function opponentResults(groups: readonly RolloutGroup[]): OpponentResult[] {
  const rewards = new Map<string, { seat: string; model: string; rewards: number[] }>();
  for (const rollout of groups.flatMap((group) => group.rollouts)) {
    if (rollout.status !== 'completed') continue;
    for (const { seat, model, isPolicy } of rollout.seats ?? []) {
      if (isPolicy) continue;
      const key = JSON.stringify([seat, model]);
      const known = rewards.get(key) ?? { seat, model, rewards: [] };
      known.rewards.push(rollout.reward);
      rewards.set(key, known);
    }
  }
  return [...rewards]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { seat, model, rewards: all }]) => ({
      seat,
      model,
      rollouts: all.length,
      reward: meanOf(all),
    }));
}

/** The mean reward and metrics of each seat, named `seat/metric`. Empty without seats. */
export function seatMetrics(groups: readonly RolloutGroup[]): Record<string, number> {
  const values = new Map<string, number[]>();
  for (const { status, seats = [] } of groups.flatMap((group) => group.rollouts)) {
    if (status !== 'completed') continue;
    for (const { seat, trajectory } of seats) {
      if (!hasPlayed({ trajectory })) continue;
      const metrics = { reward: trajectory.reward ?? 0, ...trajectory.metrics };
      for (const [name, value] of Object.entries(metrics)) {
        const key = `${seat}/${name}`;
        values.set(key, [...(values.get(key) ?? []), Number(value)]);
      }
    }
  }
  return Object.fromEntries([...values].map(([name, all]) => [name, meanOf(all)]));
}
