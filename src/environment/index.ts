export type { Credit, CreditContext } from './credit.ts';
export { defineEnvironment } from './define-environment.ts';
export {
  type Environment,
  type GroupScoring,
  isEnvironment,
  type OpenEnvironment,
} from './environment.ts';
export {
  EnvironmentError,
  type EnvironmentErrorCode,
  ScenarioError,
  type ScenarioErrorCode,
} from './errors.ts';
export { type GradingJudge, gradingJudge } from './judge/grading-judge.ts';
export type { JudgeOptions, JudgePrices, JudgeUsage } from './judge/options.ts';
export { type RelativeJudge, type RelativeJudgeOptions, relativeJudge } from './judge/relative-judge.ts';
export type {
  LoopOutcome,
  LoopPieces,
  LoopSettings,
  PieceContext,
  Reply,
  ToolUse,
  TurnContext,
} from './loop/pieces.ts';
export { checkTrajectory, cleanupFailedMetric, unansweredCallsMetric } from './metrics.ts';
export type {
  CleanupContext,
  EnvironmentOptions,
  ErrorContext,
  LimitContext,
  LoopEnvironmentOptions,
  RolloutContext,
  RolloutEnvironmentOptions,
  SetupContext,
} from './options.ts';
export type {
  GroupMember,
  GroupRewardContext,
  GroupRewardFunction,
  GroupRewards,
  RewardContext,
  RewardFunction,
  Rewards,
  WeightedGroupReward,
  WeightedReward,
} from './rewards/reward.ts';
export { codeDigest, type RewardCodes, rewardChanges } from './rewards/reward-code.ts';
export { runAgent } from './run-agent.ts';
export type { Generate } from './scenario-set/generator-stage.ts';
export { type KeyFunction, scenarioKey } from './scenario-set/scenario-key.ts';
export {
  type MixedSet,
  ScenarioSet,
  type ScenarioSetOptions,
  toScenarioSource,
} from './scenario-set/scenario-set.ts';
export type {
  DifficultyOptions,
  DifficultyReport,
  DrawnScenario,
  JsonValue,
  ScenarioResult,
  ScenarioSource,
} from './scenario-set/stage.ts';
export type { SplitOptions } from './scenario-set/transform-stage.ts';
export { inOneLine, titleOfScenario } from './scenario-title.ts';
export type {
  Seat,
  SeatEnvironmentOptions,
  SeatReward,
  SeatRewardFunction,
  SeatRolloutContext,
  Seats,
} from './seats.ts';
export { givenTexts, type NoTexts, type TextSet } from './texts.ts';
export {
  codeOfThrown,
  describeThrown,
  describeWithLocation,
  errorsWithin,
  isOurs,
  locationOfThrown,
  type ThrownLocation,
} from './thrown.ts';
export { traceTools, watchAiSdkTools } from './tools.ts';
