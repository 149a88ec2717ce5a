import type { z } from 'zod';
import type { RunListener } from '../progress/index.ts';
import type { RolloutExecutor } from '../rollout/index.ts';
import type { FailureTeller } from './failure-teller.ts';
import type { LoopDelay } from './loop-delay.ts';
import type { RunDirectory } from './run-directory.ts';
import type { TrainSettings } from './train-options.ts';

/** What the parts of a run share. */
export interface RunContext<Schema extends z.ZodType, Outcome> {
  settings: TrainSettings<Schema, Outcome>;
  /** One for all steps and validations. */
  executor: RolloutExecutor;
  directory: RunDirectory;
  emit: RunListener;
  tellFailures: FailureTeller;
  loopDelay: LoopDelay;
  /** Begins the keys of what is logged. */
  runId: string;
  /** Aborts when the run is stopped or ends: rollouts that still go on are cancelled. */
  signal: AbortSignal;
}
