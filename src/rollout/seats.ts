import type { z } from 'zod';
import type { Environment, Seats } from '../environment/index.ts';
import { forRollout, type RolloutModel, recordedIn, runWithModel } from '../model/index.ts';
import { deriveSeed, runInTrajectory, Trajectory, type TrajectoryOptions } from '../trajectory/index.ts';
import { sumOf } from '../util/sums.ts';

/** The model of a seat in one rollout. */
export interface SeatPlayer {
  model: RolloutModel;
  /** Whether the seat's trajectory is trained on. */
  trains: boolean;
  /** Whether it is the model of the run. */
  isPolicy: boolean;
}

/** A seat in a rollout that has begun. Its reward is its trajectory's. */
export interface SeatRun {
  readonly seat: string;
  /** Name of the model that played it. */
  readonly model: string;
  readonly trains: boolean;
  readonly isPolicy: boolean;
  readonly trajectory: Trajectory;
}

/** The trajectories of a rollout. */
export interface RolloutTrajectories {
  /** The trajectory of the first seat that the model of the run plays. */
  main: Trajectory;
  /** All seats, in the order of the environment; undefined in an environment with one agent. */
  seats: readonly SeatRun[] | undefined;
  all: readonly Trajectory[];
}

/** The options of a rollout that decide who plays, and how the trajectories begin. */
interface Task<Schema extends z.ZodType, Outcome> {
  environment: Environment<Schema, Outcome>;
  model: RolloutModel;
  players?: Readonly<Record<string, SeatPlayer>> | undefined;
  group: number;
  index: number;
  seed: number;
  onUnexpectedCall: 'error' | 'warn';
}

/** Makes the trajectories of a rollout. @param signals `signal` aborts their model calls. */
export function openTrajectories<Schema extends z.ZodType, Outcome>(
  task: Task<Schema, Outcome>,
  signals: Pick<TrajectoryOptions, 'signal' | 'agentSignal'> = {},
): RolloutTrajectories {
  const { environment, group, index, seed, onUnexpectedCall } = task;
  const open = (model: RolloutModel, ownSeed: number, facts: Record<string, string>) => {
    const trajectory = new Trajectory({
      ...(model.step === undefined ? {} : { policy: model.name }),
      seed: ownSeed,
      onUnexpectedCall,
      ...signals,
      limits: environment.limits,
    });
    Object.assign(trajectory.metadata, { group, rollout: index, seed, ...facts });
    return trajectory;
  };
  if (environment.seats.length === 0) {
    const main = open(task.model, seed, {});
    return { main, seats: undefined, all: [main] };
  }
  const players = playersOf(task);
  const seats = players.map(({ seat, model, trains, isPolicy }, at) => {
    const others = players.filter((other) => other.seat !== seat && !other.isPolicy);
    const against = others.map((other) => `${other.seat}: ${other.model.name}`).join(', ');
    const facts = { seat, ...(against === '' ? {} : { against }) };
    const trajectory = open(model, deriveSeed(seed, at), facts);
    return { seat, model: model.name, trains, isPolicy, trajectory };
  });
  const main = (seats.find(({ isPolicy }) => isPolicy) ?? seats[0])?.trajectory ?? open(task.model, seed, {});
  return { main, seats, all: seats.map(({ trajectory }) => trajectory) };
}

/** The seats as the environment's functions get them. */
export function seatsForAgents<Schema extends z.ZodType, Outcome>(
  task: Task<Schema, Outcome>,
  seats: readonly SeatRun[],
): Seats {
  const players = playersOf(task);
  return Object.fromEntries(
    seats.map(({ seat, trajectory }, at) => {
      const model = recordedIn(
        trajectory,
        forRollout(players[at]?.model ?? task.model, task.onUnexpectedCall),
      );
      const run = <Result>(agent: () => Result): Result =>
        runInTrajectory(trajectory, () => runWithModel(model, agent));
      return [seat, { name: seat, model, trajectory, run }];
    }),
  );
}

/** The player of each seat: the trained model, if `players` has no other. */
function playersOf<Schema extends z.ZodType, Outcome>({
  environment,
  model,
  players = {},
}: {
  environment: Pick<Environment<Schema, Outcome>, 'seats'>;
  model: RolloutModel;
  players?: Readonly<Record<string, SeatPlayer>> | undefined;
}): (SeatPlayer & { seat: string })[] {
  return environment.seats.map((seat) => ({
    seat,
    ...(players[seat] ?? { model, trains: true, isPolicy: true }),
  }));
}

/** The mean reward of the seats that the model of the run played and made a call in; 0 without one. */
export function meanReward(seats: readonly SeatRun[]): number {
  const counted = seats.filter((seat) => seat.isPolicy && hasPlayed(seat));
  const sum = sumOf(counted, ({ trajectory }) => trajectory.reward ?? 0);
  return counted.length === 0 ? 0 : sum / counted.length;
}

/** Whether the seat made a call that was answered. */
export const hasPlayed = ({ trajectory }: Pick<SeatRun, 'trajectory'>): boolean =>
  trajectory.histories.length > 0 || trajectory.externalModel !== undefined;
