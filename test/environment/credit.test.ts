import fc from 'fast-check';
import { type Credit, EnvironmentError, Trajectory } from 'martingale';
import { expect, test } from 'vitest';
import { creditOf } from '../../src/environment/credit.ts';
import { recordCall } from './record-call.ts';

function contextOf(stepRewards: (number | null)[], reward: number) {
  const trajectory = new Trajectory();
  for (const step of stepRewards) {
    const call = recordCall(trajectory);
    if (step !== null) trajectory.rewardCall(step, { call });
  }
  const { signal } = new AbortController();
  return { scenario: { goal: 3 }, outcome: 'o', trajectory, calls: trajectory.calls, reward, signal };
}

const credited = async (credit: Credit<unknown, unknown>, context: ReturnType<typeof contextOf>) => [
  ...(await creditOf(credit, context, { timeoutMs: 20 })),
];

test('the discounted return of each call, with the rest of the reward at the last one', async () => {
  // Step rewards 1, 0, 4 and 2 more for the whole: 6; 0 + 0.5 * 6; 1 + 0.5 * 3.
  expect(await credited({ discount: 0.5 }, contextOf([1, null, 4], 7))).toEqual([
    [0, 2.5],
    [1, 3],
    [2, 6],
  ]);
  expect(await credited({ discount: 1 }, contextOf([1, null, 4], 7))).toEqual([
    [0, 7],
    [1, 6],
    [2, 6],
  ]);
  expect(await credited({ discount: 0 }, contextOf([1, null, 4], 7))).toEqual([
    [0, 1],
    [1, 0],
    [2, 6],
  ]);
  expect(await credited({ discount: 0.9 }, contextOf([null], 0.5))).toEqual([[0, 0.5]]);
});

test('a function gives each call its credit', async () => {
  const context = contextOf([1, null], 7);
  const credit: Credit<{ goal: number }, string> = async ({ calls, reward, scenario, outcome }) =>
    calls.map((call) => call.reward + reward + scenario.goal + outcome.length);
  expect([...(await creditOf(credit, context, { timeoutMs: 20 }))]).toEqual([
    [0, 12],
    [1, 11],
  ]);
});

test.each<[string, Credit<unknown, unknown>, string, RegExp]>([
  [
    'too few numbers',
    () => [1],
    'credit_failed',
    /returned 1 numbers for 2 calls. Return one number per call/,
  ],
  ['no numbers', () => JSON.parse('null'), 'credit_failed', /returned null for 2 calls/],
  ['NaN', () => [1, Number.NaN], 'credit_failed', /returned NaN for call 1, not a finite/],
  ['an error', () => Promise.reject(new Error('no')), 'credit_failed', /threw: no/],
  ['nothing, ever', () => new Promise(() => undefined), 'credit_timeout', /longer than 20 ms/],
])('credit that returns %s is an error', async (_, credit, code, message) => {
  const failing = credited(credit, contextOf([null, null], 1));
  await expect(failing).rejects.toThrow(EnvironmentError);
  await expect(failing).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
});

test('each return follows from the next one, and with a discount of 1 the first is the whole reward', async () => {
  const numbers = fc.double({ min: -100, max: 100, noNaN: true });
  const steps = fc.array(fc.option(numbers), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(
      steps,
      numbers,
      fc.double({ min: 0, max: 1, noNaN: true }),
      async (given, reward, discount) => {
        const context = contextOf(given, reward);
        const returns = (await credited({ discount }, context)).map(([, value]) => value);
        expect(returns).toHaveLength(given.length);
        for (const [at, value] of returns.slice(0, -1).entries())
          expect(value).toBeCloseTo((given[at] ?? 0) + discount * (returns[at + 1] ?? 0), 8);
        const [whole] = (await credited({ discount: 1 }, context)).map(([, value]) => value);
        expect(whole).toBeCloseTo(reward, 8);
      },
    ),
    { seed: 4, numRuns: 200 },
  );
});
