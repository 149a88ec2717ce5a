export {
  type AdaptiveConcurrency,
  type CallBudget,
  type CallBudgetOptions,
  type CallBudgetStats,
  type CallOutcome,
  type CallSlot,
  callBudget,
  type MeteredCallBudget,
} from './call-budget.ts';
export { type CompletionSource, StreamedChoice } from './completion-source.ts';
export { type DefaultProviderOptions, usePolicyAsDefaultProvider } from './default-provider.ts';
export { isPromptTooLong } from './external-language-model.ts';
export {
  ExternalModel,
  type ExternalModelOptions,
  type ExternalModelSettings,
  externalModel,
} from './external-model.ts';
export { ModelError, type ModelErrorCode } from './model-error.ts';
export { forRollout, ModelHandle, type ModelHandleOptions, type ModelSettings } from './model-handle.ts';
export {
  checkIfExists,
  type IfExists,
  newestStep,
  type OpenModelOptions,
  openModel,
  requireModelId,
} from './open-model.ts';
export type { OutsideRollout, SamplingOverride } from './policy-caller.ts';
export { type RecordCallsOptions, type RecordedRequest, recordCalls } from './record-calls.ts';
export {
  type ReplayedCalls,
  type ReplayedModel,
  type ReplayModelOptions,
  replayCalls,
  replayModel,
} from './replay-calls.ts';
export { differences, quoted, type RecordedAnswer, ReplaySource } from './replay-source.ts';
export { policy, type RolloutModel, runWithModel } from './rollout-model.ts';
export { type ScriptedModelOptions, type ScriptedReply, scriptedModel } from './scripted-model.ts';
export { recordedIn } from './seat-model.ts';
