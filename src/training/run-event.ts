import type { TrajectoryBody } from '../contract/index.ts';

/** Mean reward and share of successes of an evaluation; `success` is the metric of that name, else null. */
export interface EvaluationScore {
  reward: number;
  success: number | null;
}

/** The books and figures of one step. `dispatched` = `completed` + `failed` + `cancelled`, always. */
export interface StepReport {
  /** Policy version the rollouts sampled from, counted from the run's first. */
  step: number;
  steps: number;
  /** Mean reward of the completed rollouts. */
  reward: number;
  /** Mean of the metric `success`, where the environment has it. */
  success: number | null;
  dispatched: number;
  completed: number;
  failed: number;
  cancelled: number;
  /** Groups that the job could learn from, out of `groups`; where no job says it, those whose rewards differ. */
  groupsWithSignal: number;
  groups: number;
  /** Largest |log p_trainer - log p_sampler| over the step's tokens. */
  logprobDifference: number | null;
  /** Mean entropy, in nats, of the sampled decisions. */
  entropy: number | null;
  gradientNorm: number | null;
  loss: number | null;
  /** Mean of log p_policy - log p_reference over the step's tokens, in nats; null without a KL penalty. */
  klReference: number | null;
  /** Sampled tokens over the wall-clock seconds of the rollouts. */
  tokensPerSecond: number;
  /** Wall-clock seconds: of the step, and of its phases. */
  seconds: number;
  phases: { rollouts: number; log: number; training: number; checkpoint: number };
  /** Pinned name of the policy the rollouts sampled from. */
  policy: string;
}

/** What a run tells whoever watches it, in order. */
export type RunEvent =
  | {
      type: 'run_started';
      runDirectory: string;
      model: string;
      steps: number;
      groupsPerStep: number;
      rolloutsPerGroup: number;
    }
  /**
   * A named stretch beside the steps: a supervised start, or an evaluation (`evaluation before`, `evaluation step-N`,
   * `evaluation after`), whose rollouts `done` counts up to `total`.
   */
  | { type: 'phase'; phase: string; done: number; total: number | null; metrics: Record<string, number> }
  | {
      type: 'evaluated';
      name: string;
      policy: string;
      score: EvaluationScore;
      scenarios: number;
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
  | { type: 'run_ended'; reason: 'finished' | 'stopped'; seconds: number; runDirectory: string };

export type RunListener = (event: RunEvent) => void;
