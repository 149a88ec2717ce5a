export { type BodyForm, History } from './history.ts';
export { addUses, type Observations, type ToolUses } from './observations.ts';
export { readableMessage } from './readable-message.ts';
export {
  type AskedForm,
  askedFormOf,
  assistantMessage,
  joinedReply,
  messageKey,
  type PromptMessages,
  type RecordedCall,
  reasoningOf,
  replyKey,
  sampledMessage,
  type TrajectoryCall,
} from './recorded-call.ts';
export { repeatedShare } from './replies.ts';
export {
  currentTrajectory,
  registerOwnHost,
  runAsOwnCall,
  runInTrajectory,
  runOutsideTrajectory,
  watchOtherModels,
} from './scope.ts';
export { deriveSeed, randomSource } from './seed.ts';
export { isSendableReward, sendableRewards, whyNotSendable } from './sendable.ts';
export { Trajectory } from './trajectory.ts';
export {
  isLimitReached,
  limitFields,
  limitReached,
  TrajectoryError,
  type TrajectoryErrorCode,
  trajectoryClosed,
  type UnexpectedCallReason,
  type UsedUpLimit,
  unexpectedCall,
} from './trajectory-error.ts';
export { TrajectoryGroup } from './trajectory-group.ts';
export type {
  LimitReason,
  RolloutLimits,
  RolloutUsage,
  TrajectoryOptions,
} from './trajectory-options.ts';
export { fromTrajectoryRecord, type TrajectoryRecord, toTrajectoryRecord } from './trajectory-record.ts';
