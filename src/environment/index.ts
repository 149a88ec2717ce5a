export {
  defineEnvironment,
  type Environment,
  type EnvironmentOptions,
  type RewardContext,
  type RewardFunction,
  type RolloutContext,
  type WeightedReward,
} from './environment.ts';
export { checkMetrics, MetricError } from './metric-error.ts';
export { RewardError, score } from './score.ts';
