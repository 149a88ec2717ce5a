import './platform/check-node.ts';

/** For tests of environments and rewards without a model: scripted replies, recorded model calls, and whole steps. */
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
