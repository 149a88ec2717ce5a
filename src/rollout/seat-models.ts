import type { z } from 'zod';
import { withoutStep } from '../contract/index.ts';
import type { Environment } from '../environment/index.ts';
import { ModelHandle, type RolloutModel } from '../model/index.ts';
import { deriveSeed } from '../trajectory/index.ts';
import { invalidOption, OptionError } from '../util/option-error.ts';
import { Opponents } from './opponents.ts';
import type { SeatPlayer } from './seats.ts';

/** A second model that trains: on the trajectories of its seat, with jobs of its own. */
export interface TrainedSeat {
  /** Opened with `openModel`, of the same service as the model of the run. */
  model: ModelHandle;
  trains: true;
}

/** Who plays a seat instead of the model of the run: one model, a second one that trains, or a pool of opponents. */
export type SeatModel = RolloutModel | TrainedSeat | Opponents;

export const isTrainedSeat = (model: SeatModel): model is TrainedSeat => 'trains' in model;

/** Who plays which seat. The model of the run plays the seats that are not listed. */
export type SeatModels = Readonly<Record<string, SeatModel>>;

/** @throws OptionError for a seat that the environment does not have, or if no seat is left for the model of the run. */
export function checkSeats<Schema extends z.ZodType, Outcome>(
  environment: Pick<Environment<Schema, Outcome>, 'name' | 'seats'>,
  seats: SeatModels | undefined,
  name = 'seats',
): void {
  const given = Object.entries(seats ?? {});
  const all = environment.seats;
  for (const [seat, model] of given) {
    const option = `${name}.${seat}`;
    if (!all.includes(seat))
      throw new OptionError(
        'invalid_rollout_option',
        `\`${option}\`: environment "${environment.name}" has no seat "${seat}". ` +
          (all.length === 0
            ? 'It has no seats: name them in `defineEnvironment({ seats })`.'
            : `It has the seats ${all.join(', ')}.`),
        { option, value: model },
      );
    if (!isSeatModel(model))
      throw invalidOption(
        'invalid_rollout_option',
        option,
        model,
        'Pass a model created by `openModel()` or `externalModel()`, `{ model, trains: true }`, or `opponents()`.',
      );
  }
  if (all.length > 0 && given.length === all.length)
    throw invalidOption(
      'invalid_rollout_option',
      name,
      Object.keys(seats ?? {}),
      'Every seat is given to another model. Leave at least one for the model of the run.',
    );
}

function isSeatModel(model: unknown): boolean {
  if (model instanceof Opponents) return true;
  if (typeof model !== 'object' || model === null) return false;
  if ('trains' in model)
    return model.trains === true && 'model' in model && model.model instanceof ModelHandle;
  return 'name' in model && 'languageModel' in model;
}

/** Who plays which seat, by name, for records: a run must not be continued with other opponents. */
export const namesOfSeats = (seats: SeatModels): Record<string, string> =>
  Object.fromEntries(
    Object.entries(seats).map(([seat, model]) => [
      seat,
      isTrainedSeat(model) ? `${withoutStep(model.model.name)}, which trains` : model.name,
    ]),
  );

/** The players of one group. All its rollouts meet the same ones, so that their rewards can be compared. */
export function choosePlayers<Schema extends z.ZodType, Outcome>(
  seats: SeatModels | undefined,
  {
    environment,
    model,
    seed,
  }: { environment: Pick<Environment<Schema, Outcome>, 'seats'>; model: RolloutModel; seed: number },
): Record<string, SeatPlayer> | undefined {
  if (!seats) return undefined;
  return Object.fromEntries(
    Object.entries(seats).map(([seat, player]) => {
      if (isTrainedSeat(player)) return [seat, { ...player, isPolicy: false }];
      const drawn =
        player instanceof Opponents
          ? player.draw({ policy: model, seed: deriveSeed(seed, environment.seats.indexOf(seat)) })
          : player;
      return [seat, { model: drawn, trains: false, isPolicy: false }];
    }),
  );
}
