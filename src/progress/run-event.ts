import type { TrajectoryBody } from '../contract/index.ts';
import type { FailureKind, RolloutCounts } from '../rollout/index.ts';
import type { Alarm, StepReport } from './report.ts';

/** A version that changed since the run began. It is only reported. For `engine` it is the engine's name. */
export interface VersionChange {
  of: 'martingale' | 'node' | 'engine';
  was: string;
  is: string;
}

/** Mean reward and share of successes of an evaluation; `success` is the metric of that name, else null. */
export interface EvaluationScore {
  reward: number;
  success: number | null;
}

/** The numbers of a validation. */
export interface RunValidation {
  /** `before`, `after-step-N` or `after`. */
  name: string;
  /** Finished steps at that time. */
  step: number;
  /** Pinned name of the evaluated model. */
  policy: string;
  /** Step of that checkpoint on the service. */
  checkpoint: number;
  /** Mean reward, and mean of the metric `success`; null without that metric. */
  reward: number;
  success: number | null;
  /** Share of rollouts that did not complete. The means leave them out. */
  failedShare: number;
  usage: { promptTokens: number; sampledTokens: number };
}

/**
 * `finished`: all steps are done. `stopped`: its signal was aborted. `early_stop`: `stopWhen` ended it. `budget`: its
 * budget is used up.
 */
export type RunEndReason = 'finished' | 'stopped' | 'early_stop' | 'budget';

/** An event of a run. Listeners get the events in order. */
export type RunEvent =
  | {
      type: 'run_started';
      runDirectory: string;
      /** Model name, pinned to the checkpoint from which the run continues. */
      model: string;
      /**
       * Step of the checkpoint at the beginning of the run, before a warm start. Above 0 if the model had been trained
       * before.
       */
      fromStep: number;
      steps: number;
      groupsPerStep: number;
      rolloutsPerGroup: number;
      /** Steps that were finished before; absent unless the run is resumed. */
      finishedSteps?: number;
      /** Versions that changed since the run began; absent unless it is resumed. */
      changedVersions?: VersionChange[];
      /** Reports of the finished steps, in order. The events file leaves them out; `metrics.jsonl` has them. */
      finishedReports?: StepReport[];
    }
  /**
   * Progress of work outside the steps: the warm start, or an evaluation (`evaluation before`,
   * `evaluation after-step-N`, `evaluation after`). `done` counts up to `total`.
   */
  | { type: 'phase'; phase: string; done: number; total: number | null; metrics: Record<string, number> }
  | {
      type: 'evaluated';
      name: string;
      policy: string;
      score: EvaluationScore;
      /** 95 % intervals of the score; absent in events of earlier versions, null for too few scenarios. */
      intervals?: { reward: [number, number] | null; success: [number, number] | null };
      scenarios: number;
      /** Scenarios with a completed rollout. Only these are in the score. */
      scored: number;
      /** Counts of its rollouts. */
      counts: RolloutCounts;
      examples: TrajectoryBody[];
    }
  | { type: 'rollouts'; step: number; done: number; total: number }
  | {
      type: 'job';
      step: number;
      status: 'submitted' | 'running' | 'ended';
      gradientSteps: number;
      total: number | null;
    }
  | ({ type: 'step' } & StepReport)
  /**
   * Kinds of failure of a step or a validation that the run has not reported before. `name` is the name of its file in
   * `trajectories/`: `step-0003`, `before`. `step` counts from 0 and is absent for a validation.
   */
  | { type: 'failures'; name: string; step?: number; kinds: FailureKind[] }
  /** Something that a person should look at; see `diagnose`. */
  | ({ type: 'alarm' } & Alarm)
  | {
      type: 'run_ended';
      reason: RunEndReason;
      /** The reason that `stopWhen` gave, the part of the budget that is used up, or that the scenarios ended; else absent. */
      because?: string;
      /** The sum over all finished steps; absent if it is 0. */
      rewrittenHistories?: number;
      /** As in the reports of the steps; absent if replies were free. */
      askedForms?: readonly string[];
      seconds: number;
      runDirectory: string;
    };

export type RunListener = (event: RunEvent) => void;
