export { ReplayMismatchError, RunRecordError } from './errors.ts';
export { type RunEvaluation, type RunReader, readRun } from './read-run.ts';
export {
  type ReplayDifference,
  type ReplayedStep,
  type ReplayOptions,
  type ReplayStepOptions,
  replayStep,
} from './replay-step.ts';
export {
  type Rescored,
  type RescoredGroups,
  type RescoredRollout,
  type RescoreOptions,
  rescore,
} from './rescore.ts';
