import { describe, expect, test } from 'vitest';
import type { Alarm, AlarmKind, StepReport } from '../../../src/progress/index.ts';
import { diagnose, newAlarms, RunDiagnosis } from '../../../src/training/diagnosis/diagnose.ts';
import type { RunFigures } from '../../../src/training/diagnosis/run-so-far.ts';
import { comparison, deskRun, reports } from './reports.ts';

const from =
  (first: number, change: Partial<StepReport>) =>
  (step: number): Partial<StepReport> =>
    step < first ? {} : change;
const evaluations = (...rewards: number[]) => rewards.map((reward, at) => ({ step: at * 10, reward }));
const rising = (step: number) => ({ reward: 0.3 + step / 100, success: 0.3 + step / 100 });

describe('stays silent', () => {
  test('on a run that learns its task completely', () => {
    const healthy = { reports: deskRun(), evaluations: evaluations(0.45, 0.7, 0.9, 0.98) };
    expect(healthy.reports).toHaveLength(120);
    expect(diagnose(healthy)).toEqual([]);
  });

  test.each<[string, RunFigures]>([
    ['on nothing', { reports: [] }],
    ['on figures that no job gave', { reports: reports(20, () => ({ entropy: null, clippedShare: null })) }],
    [
      'on low entropy and equal rewards where the task is solved',
      {
        reports: reports(
          20,
          from(8, { entropy: 0.01, rewardDeviation: 0, success: 0.99, groupsWithSignal: 2 }),
        ),
      },
    ],
    ['on one odd step', { reports: reports(20, (step) => (step === 9 ? { groupsWithSignal: 0 } : {})) }],
    ['on low entropy from the start', { reports: reports(30, () => ({ entropy: 0.01 })) }],
    [
      'on a validation that falls with the training reward',
      {
        reports: reports(50, (step) => ({ reward: 0.8 - step / 100 })),
        evaluations: evaluations(0.8, 0.7, 0.6, 0.5),
      },
    ],
    [
      'on a validation that wavers',
      { reports: reports(50, rising), evaluations: evaluations(0.5, 0.48, 0.52, 0.5, 0.49) },
    ],
    [
      'on validations that fall where more than half of their rollouts failed',
      {
        reports: reports(50, rising),
        evaluations: evaluations(0.3, 0.5, 0.4, 0.35).map((point) => ({ ...point, failedShare: 0.6 })),
      },
    ],
    ['on text that repeats as it always did', { reports: reports(30, () => ({ repeatedShare: 0.4 })) }],
    [
      'on a difference of sampler and trainer that staleness explains',
      { reports: reports(5, () => ({ logprobDifference: 0.5, staleness: { mean: 1, max: 1 } })) },
    ],
    [
      'on staleness within its bound',
      { reports: reports(20, () => ({ staleness: { mean: 1, max: 2 } })), stalenessBound: 2 },
    ],
    ['on a few failures', { reports: reports(20, () => ({ failed: 5, failures: { timeout: 5 } })) }],
    [
      'on a reward that rises with success',
      { reports: reports(40, (step) => ({ reward: step / 40, success: 0.2 + step / 200 })) },
    ],
    [
      'on a reward that rises where nearly all succeed',
      { reports: reports(40, (step) => ({ reward: step / 40, success: 0.97 })) },
    ],
    [
      'on a reward that rises with so few rollouts that their success says nothing',
      { reports: reports(40, (step) => ({ reward: step / 40, completed: 2 })) },
    ],
    [
      'on a reward that rises without a metric of success',
      { reports: reports(40, (step) => ({ reward: step, success: null })) },
    ],
    [
      'on tools that throw now and then, or are called in the wrong way',
      {
        reports: reports(20, () => ({
          tools: {
            search: { uses: 100, errors: 40, invalid: 0 },
            clock: { uses: 100, errors: 0, invalid: 100 },
            rare: { uses: 1, errors: 1, invalid: 0 },
          },
        })),
      },
    ],
    [
      'on a few rollouts that fill the context or leave a call behind',
      { reports: reports(20, () => ({ contextOverflows: 5, callsInFlight: 4 })) },
    ],
    ['on credit that was used', { reports: reports(5, () => ({ credit: 'used' })) }],
  ])('%s', (_, figures) => {
    expect(diagnose(figures)).toEqual([]);
  });
});

describe('raises', () => {
  test.each<[AlarmKind, string, RunFigures, number, RegExp]>([
    [
      'collapse',
      'when the policy says one thing and a good part fails',
      { reports: reports(30, from(12, { entropy: 0.01, rewardDeviation: 0.02, success: 0.6 })) },
      16,
      /Entropy is 0\.01 nats and was 0\.5 .* 60% succeed/,
    ],
    [
      'collapse',
      'when jobs have stopped because no group differs',
      {
        reports: reports(30, (step) =>
          step < 12
            ? { entropy: step < 10 ? 0.5 : 0.02 }
            : { entropy: null, groupsWithSignal: 0, success: 0.6 },
        ),
      },
      16,
      /Entropy is 0\.02/,
    ],
    [
      'collapse',
      'without a metric of success, where the reward is well below its best',
      {
        reports: reports(30, (step) => ({
          success: null,
          ...(step < 12
            ? { reward: 0.8 }
            : { reward: 0.2, entropy: 0.01, rewardDeviation: 0.01, groupsWithSignal: 4 }),
        })),
      },
      16,
      /the reward, at 0\.2, is below its best/,
    ],
    [
      'no_signal',
      'when all is solved',
      {
        reports: reports(
          20,
          from(10, {
            ...{ groupsWithSignal: 0, success: 1, reward: 1 },
            comparison: comparison({ equalRewards: 12, solved: 12, unsolved: 0 }),
          }),
        ),
      },
      14,
      /^The scenarios are solved: in 60 of 60 groups every rollout succeeds\. 0% of the groups/,
    ],
    [
      'no_signal',
      'when nothing ever is',
      {
        reports: reports(20, () => ({
          ...{ groupsWithSignal: 0, success: 0, reward: 0, rewardDeviation: 0 },
          comparison: comparison({ equalRewards: 12, solved: 0, unsolved: 12, equalRewardValues: [0] }),
        })),
      },
      4,
      /not solved at all/,
    ],
    [
      'no_signal',
      'when all are stuck at a part of success',
      {
        reports: reports(20, (step) => ({
          ...{ success: 0.5, reward: 0.5, groupsWithSignal: step < 10 ? 9 : 0 },
          comparison: comparison({ equalRewards: 12, solved: 0, unsolved: 12, equalRewardValues: [0.5] }),
        })),
      },
      14,
      /the mean success is 50%\. .* hardly or only partly solved: in 60 of 60 groups no rollout has a success of 1/,
    ],
    [
      'no_signal',
      'and tells solved from not by the reward where there is no metric of success',
      {
        reports: reports(20, (step) => ({
          success: null,
          ...(step < 10
            ? { reward: step / 10 }
            : {
                ...{ reward: 1, groupsWithSignal: 0 },
                comparison: comparison({
                  ...{ equalRewards: 12, solved: null, unsolved: null, equalRewardValues: [1] },
                }),
              }),
        })),
      },
      14,
      /The scenarios seem solved: every rollout gets 1, the best reward of the run/,
    ],
    [
      'reward_up_validation_down',
      'when the training reward rises and the validation falls three times in a row',
      { reports: reports(50, rising), evaluations: evaluations(0.3, 0.5, 0.4, 0.35) },
      29,
      /fell from 0\.5 to 0\.35 over 3 evaluations, while the training reward rose from 0\.37 to 0\.57/,
    ],
    [
      'reward_up_success_flat',
      'when the reward rises and success does not',
      { reports: reports(40, (step) => ({ reward: 0.2 + step / 80, success: 0.3 })) },
      19,
      /rose from 0\.225 to 0\.412 between the first and the last quarter of 20 steps, while 30% and 30% of the/,
    ],
    [
      'reward_against_success',
      'when failures earn more than successes within groups',
      { reports: reports(9, from(2, { comparison: comparison({ mixed: 4, againstSuccess: 1 }) })) },
      3,
      /^In 2 of the last 8 groups with both, the rollouts without success earned more/,
    ],
    [
      'tool_errors',
      'at once where every use throws',
      { reports: reports(9, from(3, { tools: { search: { uses: 24, errors: 20, invalid: 4 } } })) },
      3,
      /^Tools failed over the last 4 steps: "search" in 20 of 20 uses\.$/,
    ],
    [
      'tool_errors',
      'after some steps where most uses throw',
      { reports: reports(9, () => ({ tools: { search: { uses: 20, errors: 12, invalid: 0 } } })) },
      4,
      /"search" in 60 of 100 uses/,
    ],
    [
      'context_overflow',
      'when many conversations fill the context',
      { reports: reports(20, from(10, { contextOverflows: 48 })) },
      11,
      /^20% of the rollouts \(96 of 480\) exceeded the model's context over the last 5 steps/,
    ],
    [
      'calls_in_flight',
      'when agents do not wait for their calls',
      { reports: reports(3, () => ({ callsInFlight: 96 })) },
      0,
      /^In 100% of the rollouts \(96 of 96\) the agent returned while model calls were in flight/,
    ],
    [
      'other_models',
      'when rollouts call models that are not the policy',
      {
        reports: reports(
          5,
          from(2, { otherModels: { a: 1, b: 2, c: 3, 'api.example.com/v1/chat/completions': 9 } }),
        ),
      },
      2,
      /policy: api\.example\.com\/v1\/chat\/completions \(9\), c \(3\), b \(2\) and 1 more\./,
    ],
    [
      'repeated_text',
      'when replies go round in circles',
      { reports: reports(30, from(15, { repeatedShare: 0.6 })) },
      16,
      /24% of the four-token sequences/,
    ],
    [
      'wrong_model',
      'when a rollout was answered by another model',
      { reports: reports(5, from(3, { failed: 1, failures: { unexpected_call_other_step: 1 } })) },
      3,
      /1 of 96 rollouts failed .* unexpected_call_other_step/,
    ],
    [
      'wrong_model',
      'when such calls were left out',
      { reports: reports(5, from(2, { metrics: { unexpected_calls: 0.25 } })) },
      2,
      /left out/,
    ],
    [
      'sampler_trainer_mismatch',
      'when the same weights give other probabilities',
      { reports: reports(5, from(1, { logprobDifference: 0.3 })) },
      1,
      /up to 0\.3 nats although/,
    ],
    [
      'sampler_trainer_mismatch',
      'as a note, for what 16-bit weights do',
      { reports: reports(5, from(1, { logprobDifference: 0.003 })) },
      1,
      /up to 0\.003 nats .* usual for 16-bit/,
    ],
    [
      'clipped',
      'when much of the data has no say',
      { reports: reports(20, from(10, { clippedShare: 0.5 })) },
      12,
      /30% of the tokens/,
    ],
    [
      'stale',
      'beyond the bound of the run',
      { reports: reports(5, from(2, { staleness: { mean: 1, max: 3 } })), stalenessBound: 2 },
      2,
      /at most 3 in this one: more than the bound of 2/,
    ],
    [
      'stale',
      'close to the bound all the time',
      { reports: reports(9, () => ({ staleness: { mean: 1.9, max: 2 } })), stalenessBound: 2 },
      4,
      /close to the bound of 2/,
    ],
    ['stale', 'without a bound', { reports: reports(3, () => ({ staleness: { mean: 5, max: 9 } })) }, 0, /9/],
    [
      'failures',
      'when more than a tenth of the rollouts fail',
      { reports: reports(20, from(10, { failed: 48, failures: { reward_failed: 40, rollout_timeout: 8 } })) },
      11,
      /20% of the rollouts failed .* reward_failed \(80\)/,
    ],
    [
      'failures',
      'at the first step',
      { reports: reports(1, () => ({ failed: 48, failures: { reward_failed: 48 } })) },
      0,
      /failed over the last step, most often/,
    ],
    [
      'credit_unused',
      'when the job did not say that it used the credit',
      { reports: reports(3, () => ({ credit: 'not_confirmed' })) },
      0,
      /Calls have their own rewards/,
    ],
  ])('%s %s', (kind, _, figures, step, message) => {
    const raised = diagnose(figures).filter((alarm) => alarm.kind === kind);
    expect(raised).toHaveLength(1);
    expect(raised[0]).toMatchObject({ kind, step, message: expect.stringMatching(message) });
    expect(raised[0]?.lookAt).toMatch(/\.$/);
  });
});

test('an alarm is raised again only after its condition was absent for some steps', () => {
  const failing = (...steps: number[]) =>
    diagnose({
      reports: reports(60, (step) =>
        steps.includes(step) ? { failures: { unexpected_call_other_step: 1 } } : {},
      ),
    }).map(({ step }) => step);
  expect(failing(3, 4, 5, 8, 12)).toEqual([3]);
  expect(failing(3, 4, 10, 30, 31)).toEqual([3, 10, 30]);
});

test('solved scenarios are reported once, and again only after success has fallen', () => {
  const silent = (change: (step: number) => object) =>
    diagnose({
      reports: reports(120, (step) => {
        const figures = { groupsWithSignal: 0, success: 1, reward: 1, ...change(step) };
        const solved = Math.round(12 * figures.success);
        return { ...figures, comparison: comparison({ equalRewards: 12, solved, unsolved: 12 - solved }) };
      }),
    }).filter(({ kind }) => kind === 'no_signal');
  const now = (step: number) => step % 20 >= 10 && step % 20 < 18;
  expect(silent((step) => (now(step) ? { groupsWithSignal: 3, success: 0.97 } : {}))).toMatchObject([
    { step: 4, message: expect.stringMatching(/are solved/) },
  ]);
  const fallen = silent((step) =>
    step >= 40 && step < 60 ? { groupsWithSignal: 6, success: 0.2, reward: 0.2 } : {},
  );
  expect(fallen.map(({ step }) => step)).toEqual([4, 64]);
});

test('an event loop that code held for seconds is reported, with advice; one that waited for a processor is not', () => {
  const held = reports(8, (step) => ({
    loopDelayMs: 9000,
    loopHeldMs: step === 6 ? 3210 : 1900,
    seconds: 4,
  }));
  expect(diagnose({ reports: held })).toEqual([
    {
      kind: 'event_loop_held',
      step: 6,
      message:
        'Code of this process held the event loop for 3.21 s in a step of 4 s: deadlines, other rollouts and signals waited.',
      lookAt: expect.stringContaining('workerThreads'),
    },
  ]);
});

test('a resumed run raises each alarm once, including those of a validation after its last step', () => {
  const all = reports(50, (step) => ({
    ...rising(step),
    ...(step === 40 ? { failures: { unexpected_call_other_step: 1 } } : {}),
  }));
  const validations = evaluations(0.3, 0.5, 0.4, 0.35, 0.36, 0.36);
  const told: Alarm[] = [];
  for (let steps = 1; steps <= all.length; steps++) {
    for (const evaluated of [false, true]) {
      const figures = {
        reports: all.slice(0, steps),
        evaluations: validations.filter(({ step }) => step < steps + (evaluated ? 1 : 0)),
      };
      told.push(...newAlarms(told, diagnose(figures)));
    }
  }
  expect(told.map(({ kind, step }) => [kind, step])).toEqual([
    ['reward_up_validation_down', 29],
    ['wrong_model', 40],
  ]);
});

test('an incremental diagnosis finds the same as one of the whole run, and reads only the newest steps', () => {
  const spoilt: Partial<StepReport>[] = [
    {},
    { groupsWithSignal: 0, comparison: comparison({ equalRewards: 12, solved: 12, unsolved: 0 }) },
    { groupsWithSignal: 0, comparison: comparison({ equalRewards: 12, solved: 0, unsolved: 12 }) },
    { failed: 60, completed: 36, failures: { timeout: 60 } },
    { callsInFlight: 40 },
  ];
  const all = reports(120, (step) => ({ ...rising(step), ...spoilt[Math.floor(step / 13) % spoilt.length] }));
  const validations = evaluations(0.3, 0.5, 0.4, 0.35, 0.36, 0.3, 0.2, 0.5, 0.4, 0.3, 0.2, 0.1);
  const running = new RunDiagnosis();
  const told: Alarm[] = [];
  for (let steps = 1; steps <= all.length; steps++) {
    for (const evaluated of [false, true]) {
      const figures = {
        reports: all.slice(0, steps),
        evaluations: validations.filter(({ step }) => step < steps + (evaluated ? 1 : 0)),
      };
      const newest = running.next(figures);
      expect(newest.every(({ step }) => step >= steps - 2)).toBe(true);
      told.push(...newAlarms(told, newest));
      expect(newAlarms(told, diagnose(figures))).toEqual([]);
    }
  }
  expect(new Set(told.map(({ kind }) => kind)).size).toBeGreaterThan(3);
  expect(told).toEqual(diagnose({ reports: all, evaluations: validations }));
});

test.each([
  [1, /harder scenarios/, /easier/],
  [0, /easier scenarios/, /harder/],
])(
  'a reward of %d for every reply asks for other scenarios, the right way round',
  (reward, advice, wrong) => {
    const constant = reports(5, () => ({
      ...{ groupsWithSignal: 0, reward, rewardDeviation: 0, success: null },
      comparison: comparison({
        ...{ equalRewards: 12, solved: null, unsolved: null },
        ...{ equalRewardValues: [reward], rewardRange: { min: reward, max: reward } },
      }),
    }));
    const [alarm] = diagnose({ reports: constant });
    expect(alarm).toMatchObject({ cause: 'constant_reward', lookAt: expect.stringMatching(advice) });
    expect(alarm?.lookAt).not.toMatch(wrong);
  },
);
