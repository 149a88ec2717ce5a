import type { z } from 'zod';
import type { RunListener, StepReport } from '../progress/index.ts';
import type { WholeRolloutSettings } from '../rollout/index.ts';
import type { LoopDelay } from '../util/loop-delay.ts';
import type { Learners } from './learners.ts';
import type { RunDirectory } from './run-directory.ts';
import type { ReportFailures } from './run-events.ts';
import type { RunState } from './run-state.ts';
import type { TrainResult, TrainSettings } from './train-options.ts';

/** A run in progress: what its parts share. */
export interface RunContext<Schema extends z.ZodType, Outcome> {
  readonly settings: TrainSettings<Schema, Outcome>;
  /** Rollout settings of all steps and validations, with one executor. */
  readonly rollouts: WholeRolloutSettings;
  readonly directory: RunDirectory;
  readonly emit: RunListener;
  readonly reportFailures: ReportFailures;
  readonly loopDelay: LoopDelay;
  /** Aborts when the run is stopped or ends, which cancels rollouts in flight. */
  readonly signal: AbortSignal;
  readonly state: RunState;
  /** Whether each group is sent to the service when it ends. */
  readonly storesGroups: boolean;
  /** The reports of the finished steps. */
  readonly reports: () => readonly StepReport[];
  readonly learners: Learners;
  /** The validations before the first and after the last step. */
  readonly validation: TrainResult<z.output<Schema>>['validation'];
}
