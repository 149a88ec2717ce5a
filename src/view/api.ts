/**
 * The answers of the API behind the page, by the path below `api/`. Each GET has `.json` at its end, so that an export
 * is the same as files. `:which` is a step from 0 (`3`) or the name of an evaluation (`before`, `after-step-10`).
 *
 *     runs                                                        RunsList
 *     runs/:run                                                   RunDetail
 *     runs/:run/steps/:which                                      StepDetail
 *     runs/:run/steps/:which/timeline                             Timeline
 *     runs/:run/steps/:which/groups/:group                        GroupDetail
 *     runs/:run/steps/:which/groups/:group/rollouts/:rollout      RolloutDetail
 *     flips/:runA/:whichA/:runB/:whichB                           Flips
 *     evaluations                                                 EvaluationsList
 *     comparisons/:ids                                            EvaluationComparison, of ids with commas between them
 *     service                                                     ServiceDetail
 *     service/openings/:model                                     ServiceOpening
 *     service/chat                                                ServiceReply, for a POST of ServiceQuestion
 *     events                                                      server-sent events: `change` with a Change
 *
 * What an older record does not hold is null. Errors are `{ "error": { "message": ... } }`.
 */
import type { ComparisonTable } from '../evaluation/comparison-table.ts';
import type { Alarm, StepReport } from '../progress/report.ts';

/** How a run stands. `crashed`: it has neither a lock nor an end. `broken`: it cannot be read. */
export type RunStatus =
  | 'running'
  | 'finished'
  | 'stopped'
  | 'early_stop'
  | 'budget'
  | 'failed'
  | 'crashed'
  | 'broken';

export interface RunRow {
  /** Names the run in addresses: its path below the folders that are shown. */
  id: string;
  name: string;
  /** Its name, or its environment and model if `train` or a recipe named the folder by the time. */
  title: string;
  folder: string;
  status: RunStatus;
  /** Why it ended, where a reason was given. */
  because: string | null;
  model: string | null;
  environment: string | null;
  /** Finished steps. */
  step: number;
  steps: number;
  /** Of the last finished step. */
  reward: number | null;
  success: number | null;
  /** Reward by step, at most 60 points. */
  rewards: (number | null)[];
  cost: number | null;
  /** Sampled and prompt tokens. */
  tokens: number;
  /** Times are ISO 8601. */
  started: string | null;
  changed: string;
  seconds: number | null;
  /** Why it cannot be read, for `broken`. */
  problem: string | null;
}

export interface RunsList {
  folders: string[];
  /** Newest first. */
  runs: RunRow[];
  /** Address of the service that is shown too. */
  service: string | null;
}

export interface EvaluationRow {
  /** `before`, `after-step-10`, `after`; the `:which` of its groups. */
  name: string;
  /** Finished steps before it. */
  step: number;
  policy: string;
  reward: number;
  /**
   * 95 % interval of the mean, as far as the rewards of the run's steps go; null where the groups are not kept or too few.
   */
  rewardInterval: [number, number] | null;
  success: number | null;
  /** From 0 to 1 at most. */
  successInterval: [number, number] | null;
  scenarios: number;
}

/** A candidate of an optimisation of texts. */
export interface CandidateRow {
  /** 0 is the environment's own texts. */
  number: number;
  /** The candidate that it was made of; null for 0. */
  parent: number | null;
  iteration: number;
  /** The `:which` of its validation. */
  which: string;
  /** Name of the text that was changed; null for 0. */
  text: string | null;
  texts: Record<string, string>;
  /** Means over the validation scenarios. */
  reward: number;
  success: number | null;
  /** By scenario. */
  rewards: number[];
  /** Indices of the scenarios on which no candidate has a larger reward. */
  wins: number[];
}

export interface OptimizationDetail {
  /** Titles of the validation scenarios. */
  scenarios: string[];
  /** By number. */
  candidates: CandidateRow[];
  /** Number of the candidate with the largest mean reward. */
  best: number;
  iterations: {
    iteration: number;
    parent: number | null;
    /** Name of the text that was reflected on. */
    text: string | null;
    outcome: 'accepted' | 'rejected' | 'no_proposal' | 'solved';
    because: string | null;
    /** Mean rewards of the minibatch. */
    before: number | null;
    after: number | null;
    /** Number of the candidate that it made. */
    candidate: number | null;
  }[];
  spent: {
    rollouts: number;
    model: { promptTokens: number; sampledTokens: number };
    reflect: { promptTokens: number; sampledTokens: number };
    cost: number | null;
    seconds: number;
  };
}

export interface RunDetail extends RunRow {
  /** Candidates of a run of `optimize`; null for other runs, and before the first candidate. */
  optimization: OptimizationDetail | null;
  /** `config.json`; empty if there is none yet. */
  config: Record<string, unknown>;
  /** In order; at most 500, see `stepsApart`. */
  reports: StepReport[];
  /** 1, or n if only each n-th report is here, and those with an alarm. */
  stepsApart: number;
  alarms: Alarm[];
  evaluations: EvaluationRow[];
  /** The `:which` of all groups on disk: steps in order, then evaluations. */
  names: string[];
  /** The newest failures by kind, over the steps that reported new kinds. */
  failures: { step: number | null; kind: string; count: number }[];
}

export interface FailureRow {
  code: string;
  message: string;
  /** The line of the user's code that threw. */
  at: string | null;
  stack: string | null;
  /** Rollouts of the step with this failure; the first of them. */
  count: number;
  group: number;
  rollout: number;
}

export interface RolloutRow {
  rollout: number;
  /** `not_played`: the rollout of this seat's group ended before the seat had a turn. */
  status: 'completed' | 'failed' | 'cancelled' | 'not_played';
  reward: number | null;
  /** Code of its failure. */
  failure: string | null;
}

export interface GroupRow {
  group: number;
  /** What the environment calls the scenario, or its first text. */
  title: string;
  /** Its JSON in one line. */
  scenario: string;
  /** The seat whose rollouts these are; null in an environment with one agent. */
  seat: { name: string; trains: boolean } | null;
  rollouts: RolloutRow[];
  hasSignal: boolean;
  /** Whether every rollout succeeded: there is nothing left to learn. */
  isSolved: boolean;
  /** Why the whole group is not trained on. */
  dropped: string | null;
}

export interface StepDetail {
  run: string;
  which: string;
  /** Null for an evaluation. */
  step: number | null;
  /** Null for an evaluation, and until the step has ended. */
  report: StepReport | null;
  /** Of the rollouts so far. The seats of a rollout are one rollout. */
  counts: Pick<StepReport, 'dispatched' | 'completed' | 'failed' | 'cancelled'>;
  /** Mean of the rewards so far, of the seats that the model of the run plays; null without one. */
  reward: number | null;
  /** Histogram of the rewards of completed rollouts; the last bin includes its end. */
  bins: { from: number; to: number; count: number }[];
  /** The names of the seats; empty in an environment with one agent. */
  seats: string[];
  /** With seats, a group for each seat of a scenario. */
  groups: GroupRow[];
  failures: FailureRow[];
  /** The `:which` before and after it. */
  previous: string | null;
  next: string | null;
  /** Lines of the file that cannot be read, with their reason. */
  problems: string[];
}

/** A call of a tool, as the model wrote it. */
export interface ToolUse {
  id?: string | undefined;
  name: string;
  /** As written: usually JSON. */
  arguments: string;
}

/** A message of a conversation, or a reply that a model sampled. */
export interface TurnView {
  role: string;
  text: string;
  reasoning?: string | undefined;
  tools?: readonly ToolUse[] | undefined;
  /** For the result of a tool: its name. */
  tool?: string | undefined;
  /** For a sampled reply: index of its call in the rollout. */
  call?: number | undefined;
  tokens?: number | undefined;
  /** Reward of its own. */
  reward?: number | undefined;
  finish?: string | undefined;
  /** Pinned name of the model, where it is not the rollout's policy. */
  model?: string | undefined;
}

/** A rollout beside the others of its group. */
export interface RolloutSummary extends RolloutRow {
  metrics: Record<string, number>;
  /** Advantage of its choices, without credits of their own; null if it does not train. */
  advantage: number | null;
  turns: TurnView[];
  /** Conversations besides the first. */
  otherHistories: number;
  sampledTokens: number;
  milliseconds: number;
  stopReason: string | null;
}

export interface GroupDetail {
  run: string;
  which: string;
  group: number;
  /** The seat whose rollouts these are, and the model that played it; null in an environment with one agent. */
  seat: { name: string; model: string } | null;
  /** What the environment calls the scenario, or its first text. */
  title: string;
  scenario: unknown;
  hasSignal: boolean;
  isSolved: boolean;
  dropped: string | null;
  rollouts: RolloutSummary[];
  previous: number | null;
  next: number | null;
}

/** A sampled token. */
export interface TokenRow {
  id: number;
  text: string;
  logprob: number | null;
  /** In nats, from the reported alternatives where they were asked for; else null. */
  entropy: number | null;
  /** Log-probability when the job trained on it; null if that is not known or it did not train. */
  trainedLogprob: number | null;
  /** Whether the job's clip, cap, mask or truncation changed its loss. */
  clipped: boolean;
}

/** A reply and its tokens. */
export interface SampledReply {
  call: number;
  /** Advantage of its tokens; null if they do not train. */
  advantage: number | null;
  /** Whether a job trains on it, else why not. */
  trains: boolean;
  why: string | null;
  temperature: number | null;
  /** The grammar or choice that held it, in a word. */
  constraint: string | null;
  promptTokens: number;
  tokens: TokenRow[];
}

/** One conversation. */
export interface HistoryDetail {
  turns: TurnView[];
  /** Tools that the model was shown, by name. */
  tools: string[];
  replies: SampledReply[];
}

/** A stretch of a rollout's time, in ms from its start. */
export interface Stretch {
  /** `queue`: a call waits to be sent; `sampling`: the service answers; `tool`, `reward`, or `own` (the rest). */
  kind: 'queue' | 'sampling' | 'tool' | 'reward' | 'own';
  name: string;
  start: number;
  end: number;
}

export interface RolloutDetail extends RolloutRow {
  run: string;
  which: string;
  group: number;
  scenario: unknown;
  policy: string | null;
  seed: number;
  attempt: number;
  failureDetail: FailureRow | null;
  metrics: Record<string, number>;
  metadata: Record<string, unknown>;
  logs: string[];
  outcome: unknown;
  stopReason: string | null;
  advantage: number | null;
  startTime: string | null;
  milliseconds: number;
  histories: HistoryDetail[];
  /** Empty where the record has no times. */
  stretches: Stretch[];
  /** The rollouts of the group, for the keys that move between them. */
  siblings: number[];
}

/** A rollout as a lane. Times are ms from the start of the step. */
export interface Lane {
  group: number;
  rollout: number;
  status: RolloutRow['status'];
  reward: number | null;
  /** Policy version: step of the checkpoint that sampled. */
  version: number | null;
  start: number;
  end: number;
  stretches: Stretch[];
}

export interface Timeline {
  run: string;
  which: string;
  /** ISO 8601; null if no rollout has a start. */
  start: string | null;
  /** Until the last rollout ended, and the training of this step. */
  milliseconds: number;
  lanes: Lane[];
  /** What the trainer did, in the same time. */
  trainer: { name: 'training' | 'log' | 'checkpoint'; start: number; end: number }[];
}

export interface Flip {
  /** What the environment calls the scenario, or its first text. */
  title: string;
  /** Its JSON in one line. */
  scenario: string;
  a: number;
  b: number;
  difference: number;
  /** Where both are shown: the group of each, and its first rollout. */
  groupA: number;
  groupB: number;
  rolloutA: number;
  rolloutB: number;
}

export interface Flips {
  a: { run: string; which: string; policy: string | null };
  b: { run: string; which: string; policy: string | null };
  measure: 'reward' | 'success';
  /** Mean of b - a over the paired scenarios, with a 95 % interval; null without a pair. */
  difference: { mean: number; low: number | null; high: number | null } | null;
  /** Of the sign-flip test; null without a pair. */
  pValue: number | null;
  wins: number;
  losses: number;
  ties: number;
  /** Scenarios that differ, the largest difference first. */
  flips: Flip[];
  /** Number of scenarios with a score in only one of the two. */
  onlyInA: number;
  onlyInB: number;
}

/** An evaluation whose rollouts are on disk. */
export interface KeptEvaluation {
  /** `<run>:<which>` of a run, else its path below the folders that are shown. */
  id: string;
  policy: string;
  /** Id of its run, and the `:which` of its groups there; null for one of `evaluate({ directory })`. */
  run: string | null;
  which: string | null;
}

export interface EvaluationsList {
  /** Only evaluations of one environment can be compared. */
  environments: {
    environment: string;
    evaluations: KeptEvaluation[];
    /** The ids of those that are shown first. */
    chosen: string[];
  }[];
}

export interface EvaluationComparison {
  /** Its rows have the ids as names, the first is the baseline; null with fewer than two that can be read. */
  table: ComparisonTable | null;
  /** Which could not be read, and why. */
  problems: string[];
}

export interface ServiceDetail {
  address: string;
  /** Its parts, such as its queues: whether each works, and its numbers in words. */
  parts: { name: string; isWell: boolean; text: string }[];
  /** Newest first; at most 200. */
  models: ServiceModel[];
  /** Base models, which can be asked too. */
  baseModels: string[];
}

export interface ServiceModel {
  /** entity/project/name. */
  name: string;
  baseModel: string;
  /** Newest first; at most 50. `name` is what a chat calls it; `metrics` are the last ones of its job. */
  checkpoints: { step: number; name: string; metrics: Record<string, number> }[];
  /** Training jobs, newest first; at most 20. None where the service does not list them. */
  jobs: ServiceJob[];
}

export interface ServiceJob {
  id: string;
  /** `rl` or `sft`. */
  kind: string;
  status: string;
  /** Of the checkpoint that it made; null until then. */
  step: number | null;
  created: string | null;
  /** From its start to its end; null until then. */
  seconds: number | null;
  error: string | null;
}

/** How the model was asked in its newest run: what a chat sends besides the user's messages. */
export interface ServiceOpening {
  /** Null if no run here trained the model. */
  opening: {
    /** The run's id and title. */
    run: string;
    title: string;
    /** Texts of the instructions. */
    instructions: string[];
    /** What is sent, in words. */
    parts: string[];
    /** A user's first message, as an example. */
    example: string | null;
  } | null;
}

/** A message of a chat, as in a request to a service. */
export type ChatMessage =
  | { role: 'user'; content: string }
  | {
      role: 'assistant';
      content: string | null;
      tool_calls?:
        | { id: string; type: 'function'; function: { name: string; arguments: string } }[]
        | undefined;
    }
  | { role: 'tool'; tool_call_id: string; content: string };

export interface ServiceQuestion {
  model: string;
  /**
   * The model whose newest run gives the instructions, the tools, the response format, and the tool choice of the first
   * answer; null for none of them.
   */
  openingOf: string | null;
  messages: ChatMessage[];
  temperature: number;
  maxTokens: number;
}

export interface ServiceReply {
  /** For the next question. */
  message: Extract<ChatMessage, { role: 'assistant' }>;
  reasoning: string | null;
  sampledTokens: number;
  /** Why it ended: `length` if it ran out of tokens. */
  finish: string;
  model: string;
}

/** A run whose files changed, by its id. */
export interface Change {
  run: string;
}
