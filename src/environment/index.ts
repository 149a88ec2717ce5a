export type {
  CleanupContext,
  ErrorContext,
  LimitContext,
  RolloutContext,
  SetupContext,
} from './contexts.ts';
export { type Credit, type CreditContext, CreditError } from './credit.ts';
export { defineEnvironment } from './define-environment.ts';
export { codeOfThrown, describeThrown } from './describe-thrown.ts';
export type { Environment, GroupSettlement, OpenEnvironment } from './environment.ts';
export { isEnvironment } from './is-environment.ts';
export {
  type GradingJudge,
  gradingJudge,
  JudgeError,
  JudgeOptionError,
  type JudgeOptions,
  type JudgePrices,
  type JudgeUsage,
  type RelativeJudge,
  type RelativeJudgeOptions,
  relativeJudge,
} from './judge/index.ts';
export { PieceError, ToolError } from './loop/errors.ts';
export type { LoopOutcome } from './loop/outcome.ts';
export type {
  LoopPieces,
  LoopSettings,
  PieceContext,
  Reply,
  ToolUse,
  TurnContext,
} from './loop/pieces.ts';
export { checkMetrics, MetricError } from './metric-error.ts';
export { OnErrorError } from './on-error.ts';
export type {
  EnvironmentOptions,
  LoopEnvironmentOptions,
  RolloutEnvironmentOptions,
  SharedOptions,
} from './options.ts';
export { cleanupFailedMetric } from './own-metrics.ts';
export { GroupRewardError, RewardError } from './rewards/errors.ts';
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
export { score, weigh } from './rewards/score.ts';
export { runAgent } from './run-agent.ts';
export {
  type DifficultyOptions,
  type DifficultyReport,
  type DrawnScenario,
  digest,
  type Generate,
  type JsonValue,
  type KeyFunction,
  type MixedSet,
  ScenarioFileError,
  ScenarioPositionError,
  type ScenarioResult,
  ScenarioSet,
  ScenarioSetError,
  type ScenarioSetOptions,
  type ScenarioSource,
  type SplitOptions,
  scenarioKey,
  toScenarioSource,
} from './scenario-set/index.ts';
export { SetupError } from './setup-error.ts';
export { shortPath } from './short-path.ts';
export { describeWithPlace, placeOfThrown, type ThrownPlace } from './thrown-place.ts';
export { watchAiSdkTools } from './tools/ai-sdk-tools.ts';
export { traceTools } from './tools/trace-tools.ts';
