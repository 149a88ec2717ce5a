import './platform/check-node.ts';

/** For tests of environments and rewards: model calls that were recorded once, and whole steps, without a model. */
export {
  type RecordCallsOptions,
  type RecordedRequest,
  type ReplayedCalls,
  type ReplayedModel,
  type ReplayModelOptions,
  recordCalls,
  replayCalls,
  replayModel,
} from './model/index.ts';
export {
  type ReplayDifference,
  type ReplayedStep,
  type ReplayOptions,
  type ReplayStepOptions,
  replayStep,
} from './training/index.ts';
export { RunError } from './util/run-error.ts';
