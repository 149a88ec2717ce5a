import type { TrajectoryBody } from '../../src/contract/index.ts';

import type { Alarm, RunEvent } from '../../src/progress/index.ts';

export const runStarted = (steps: number): Extract<RunEvent, { type: 'run_started' }> => ({
  type: 'run_started',
  runDirectory: 'runs/desk-1',
  model: 'local/desk/clerk',
  fromStep: 0,
  steps,
  groupsPerStep: 12,
  rolloutsPerGroup: 8,
});

export const stepReport = (
  step: number,
  steps: number,
  change: Partial<Extract<RunEvent, { type: 'step' }>> = {},
): Extract<RunEvent, { type: 'step' }> => ({
  type: 'step',
  step,
  steps,
  reward: (step + 1) / steps,
  success: step / steps,
  dispatched: 96,
  completed: 96,
  failed: 0,
  cancelled: 0,
  groupsWithSignal: 9,
  groups: 12,
  comparison: null,
  rewardDeviation: 0.3,
  klSampler: 1e-7,
  clippedShare: 0,
  staleness: { mean: 0, max: 0 },
  replyTokens: { mean: 20, max: 40 },
  repeatedShare: 0,
  failures: {},
  stopReasons: {},
  tools: {},
  contextOverflows: 0,
  callsInFlight: 0,
  rewrittenHistories: 0,
  askedForms: [],
  otherModels: {},
  credit: 'none',
  usage: { promptTokens: 2000, sampledTokens: 1000, cost: null },
  opponents: [],
  metrics: {},
  logprobDifference: 1e-6,
  entropy: 0.25,
  gradientNorm: 0.5,
  klReference: null,
  loss: 0.1,
  tokensPerSecond: 41_234,
  seconds: 0.5,
  loopDelayMs: 12,
  phases: { rollouts: 0.3, log: 0.05, training: 0.1, checkpoint: 0.05 },
  policy: `local/desk/clerk:step${step + 1}`,
  ...change,
});

export const alarm = (step: number, change: Partial<Alarm> = {}): RunEvent => ({
  type: 'alarm',
  kind: 'no_signal',
  step,
  message: '2% of the groups had rewards that differ.',
  lookAt: 'A few trajectories by eye.',
  ...change,
});

export const evaluated = (name: string, reward: number, examples: TrajectoryBody[] = []): RunEvent => ({
  type: 'evaluated',
  name,
  policy: 'local/desk/clerk:step1',
  score: { reward, success: reward / 2 },
  scenarios: 128,
  scored: 128,
  counts: { dispatched: 128, completed: 128, failed: 0, cancelled: 0 },
  examples,
});

export const phase = (done: number, total: number | null, name = 'warm start'): RunEvent => ({
  type: 'phase',
  phase: name,
  done,
  total,
  metrics: { loss: 0.4321 },
});

/** A customer's message, one tool call with its answer, and the agent's reply. */
export const conversation = (
  question: string,
  { tool = 'refund', answer = 'status ok code 42', reply = 'done', reward = 1 } = {},
): TrajectoryBody => ({
  reward,
  messages_and_choices: [
    { role: 'user', content: question },
    {
      index: 0,
      finish_reason: 'tool_calls',
      message: {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'call-1', type: 'function', function: { name: tool, arguments: '{"order":"4821"}' } },
        ],
      },
    },
    { role: 'tool', tool_call_id: 'call-1', content: answer },
    { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: reply } },
  ],
});
