import {
  type AdvantageOptions,
  type Batch,
  choiceAdvantages,
  type DatumConfig,
  makeDatums as makeDatumsInSteps,
  type RewardedGroup,
} from '../../src/learning/index.ts';

/** Advantages of trajectories without credit for choices. */
export function groupAdvantages(rewards: readonly number[], options: AdvantageOptions): number[] {
  const trajectories = rewards.map((reward) => ({ reward, credits: [] }));
  return choiceAdvantages(trajectories, options).map(([advantage = 0]) => advantage);
}

/** `makeDatums` of the library without pauses. */
export function makeDatums<Constraint>(
  groups: readonly RewardedGroup<Constraint>[],
  config: DatumConfig,
): Batch<Constraint> {
  const making = makeDatumsInSteps(groups, config);
  for (;;) {
    const step = making.next();
    if (step.done) return step.value;
  }
}
