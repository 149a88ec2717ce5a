import './platform/check-node.ts';

/** For tests: comparisons of evaluations; and without a model, scripted replies, recorded model calls, and whole steps. */
export type { EvaluationSource, HoldOptions } from './evaluation/gate.ts';
export { evaluationMatchers } from './evaluation/matchers.ts';
export {
  type RecordCallsOptions,
  type RecordedRequest,
  type ReplayedCalls,
  type ReplayedModel,
  type ReplayModelOptions,
  recordCalls,
  replayCalls,
  replayModel,
  type ScriptedModelOptions,
  type ScriptedReply,
  scriptedModel,
} from './model/index.ts';
export {
  type ReplayDifference,
  type ReplayedStep,
  type ReplayOptions,
  type ReplayStepOptions,
  replayStep,
} from './training/index.ts';
export { RunError } from './util/run-error.ts';
