import { withoutStep } from '../contract/index.ts';
import { type ModelHandle, newestStep, requireModelId } from '../model/index.ts';
import { isTrainedSeat, type RolloutGroup, type SeatModels } from '../rollout/index.ts';
import { invalidRunOption } from './errors.ts';
import { stepName } from './run-files.ts';
import type { LearnerState } from './run-state.ts';
import { isOfPolicy } from './seats.ts';

/** The models that train in a run. The first is the policy, the model of the run; the others play seats. */
export type Learners = readonly [policy: Learner, ...others: Learner[]];

export class Learner {
  /** Its entry in the state of the run. */
  readonly state: LearnerState;
  readonly isPolicy: boolean;
  /** Pinned to the checkpoint that was its newest when the run started or resumed. */
  readonly opened: ModelHandle;
  #model: ModelHandle;

  constructor(opened: ModelHandle, state: LearnerState, isPolicy: boolean) {
    this.opened = opened;
    this.state = state;
    this.isPolicy = isPolicy;
    this.#model = opened.at(state.policySteps.at(-1) ?? 0);
  }

  /** Pinned to its newest checkpoint. */
  get model(): ModelHandle {
    return this.#model;
  }

  /** Whether it trains on a group of `RolloutGroup.bySeat`. */
  plays(group: RolloutGroup): boolean {
    if (this.isPolicy) return isOfPolicy(group);
    return group.seat?.trains === true && withoutStep(group.seat.model) === this.state.name;
  }

  /** Name of its files of a step. */
  stepName(step: number): string {
    return this.isPolicy ? stepName(step) : `${stepName(step)}.${encodeURIComponent(this.state.name)}`;
  }

  /** Sets the checkpoint that it starts the run from. */
  startFrom(checkpoint: number): void {
    this.state.policySteps = [checkpoint];
    this.#model = this.#model.at(checkpoint);
  }

  /** Notes its checkpoint after a step. Default: the one before. */
  advance(checkpoint = this.#model.step ?? 0): void {
    if (checkpoint !== this.#model.step) this.state.checkpoints.push(checkpoint);
    this.state.policySteps.push(checkpoint);
    this.#model = this.#model.at(checkpoint);
  }
}

/**
 * The policy and the models of seats with `trains`, pinned to their newest checkpoints.
 * @throws OptionError for a seat with the model of the run; TypeError for one with a model that cannot be trained.
 */
export async function modelsToTrain(
  policy: ModelHandle,
  seats: SeatModels | undefined,
  signal: AbortSignal | undefined,
): Promise<[ModelHandle, ...ModelHandle[]]> {
  const others = new Map<string, ModelHandle>();
  for (const [seat, player] of Object.entries(seats ?? {})) {
    if (!isTrainedSeat(player)) continue;
    const name = withoutStep(player.model.name);
    if (name === withoutStep(policy.name))
      throw invalidRunOption(
        `seats.${seat}`,
        name,
        'The model of the run trains anyway: leave the seat out.',
      );
    requireModelId(player.model);
    others.set(name, player.model);
  }
  const pinned = [...others.values()].map(async (model) =>
    withTokenLists(model.at(await newestStep(model, signal)), signal),
  );
  return [await withTokenLists(policy, signal), ...(await Promise.all(pinned))];
}

/** The model with the smallest form of its replies that its service has. */
async function withTokenLists(model: ModelHandle, signal: AbortSignal | undefined): Promise<ModelHandle> {
  // What answers in place of the service may know only the calls that it recorded.
  if (model.settings.tokenLists !== undefined || model.completions) return model;
  return (await model.client.returnsTokenLists({ signal })) ? model.with({ tokenLists: true }) : model;
}

/** Learners with their entries in the state of the run; a model without an entry starts from its newest checkpoint. */
export function toLearners(
  [policy, ...others]: readonly [ModelHandle, ...ModelHandle[]],
  known: readonly LearnerState[],
): Learners {
  const toLearner = (model: ModelHandle) => {
    const name = withoutStep(model.name);
    const begun = { name, policySteps: [model.step ?? 0], checkpoints: [] };
    return new Learner(model, known.find((state) => state.name === name) ?? begun, model === policy);
  };
  return [toLearner(policy), ...others.map(toLearner)];
}
