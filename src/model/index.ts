export {
  type AdaptiveConcurrency,
  type CallBudget,
  CallBudgetOptionError,
  type CallBudgetOptions,
  type CallBudgetStats,
  type CallOutcome,
  type CallPlace,
  callBudget,
  type MeteredCallBudget,
} from './call-budget.ts';
export { untilAborted } from './call-deadline.ts';
export type { CompletionSource } from './completion-source.ts';
export { policy, runWithModel } from './current-model.ts';
export { type DefaultProviderOptions, usePolicyAsDefaultProvider } from './default-provider.ts';
export {
  BaseModelMismatchError,
  ExternalModelError,
  IncompleteCompletionError,
  ModelCallTimeoutError,
  ModelExistsError,
  NoCurrentModelError,
  NotThePolicyError,
  UnsupportedByModelError,
} from './errors.ts';
export { isPromptTooLong } from './external-language-model.ts';
export {
  ExternalModel,
  type ExternalModelOptions,
  type ExternalModelSettings,
  externalModel,
} from './external-model.ts';
export { ModelHandle, type ModelHandleOptions, type ModelSettings } from './model-handle.ts';
export {
  checkIfExists,
  type IfExists,
  newestStep,
  type OpenModelOptions,
  openModel,
  requireModelId,
} from './open-model.ts';
export type { OutsideRollout } from './outside-rollout.ts';
export type { SamplingOverride } from './policy-caller.ts';
export { type AskedCall, type RecordCallsOptions, recordCalls } from './record-calls.ts';
export {
  type ReplayedCalls,
  type ReplayedModel,
  type ReplayModelOptions,
  replayCalls,
  replayModel,
} from './replay-calls.ts';
export { differences, quoted, type RecordedAnswer, ReplaySource } from './replay-source.ts';
export { forRollout } from './rollout-handle.ts';
export type { RolloutModel } from './rollout-model.ts';
