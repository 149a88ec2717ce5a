import { describe, expect, it } from 'vitest';
import { Cores, Gpu, Heap } from './queues.ts';
import { randomNumbers, replyTokens, type SimulatedRun, simulate } from './simulate.ts';

const free = { processes: 1, rolloutMs: 0, callMs: 0, tokenMs: 0, step: { baseMs: 0, tokenMs: 0 } };

/** One GPU, 8 rollouts of one call with 100 tokens, all at once: 1 ms a token, whatever the batch. */
const plain: SimulatedRun = {
  steps: 4,
  rolloutsPerStep: 8,
  rolloutsPerGroup: 4,
  maxStaleness: 0,
  concurrency: 100,
  calls: 1,
  reply: { median: 100, sigma: 0, most: 1000 },
  toolMs: 0,
  sampling: { gpus: 1, batch: 64, baseMs: 1, eachMs: 0 },
  training: { baseMs: 50, tokenMs: 0 },
  harness: free,
  service: free,
};

describe('the simulation', () => {
  it('adds the phases of a step without staleness', () => {
    const { stepMs, totalMs, staleness, busy } = simulate({
      ...plain,
      calls: 3,
      training: { baseMs: 50, tokenMs: 0.01 },
    });
    const expected = 3 * 100 + 50 + 0.01 * 8 * 300;
    expect(stepMs).toBeCloseTo(expected, 6);
    expect(totalMs).toBeCloseTo(4 * expected, 6);
    expect(staleness).toBe(0);
    expect(busy.gpus).toBeCloseTo(300 / expected, 6);
  });

  it.each([
    [0, 50, 150],
    [1, 50, 75],
    [2, 50, 50],
    [3, 10, 27.5],
    [1, 250, 250],
  ])(
    'takes the longer of the job and a share of both phases: staleness %i, job of %i ms',
    (maxStaleness, baseMs, stepMs) => {
      // Rollouts of 100 ms begin when the job of staleness + 1 steps before has ended: T(k) = T(k - S - 1) + 100 + job.
      const steps = 40;
      const figures = simulate({ ...plain, steps, maxStaleness, training: { baseMs, tokenMs: 0 } });
      expect(figures.stepMs).toBeCloseTo(stepMs, 6);
      const first = Array.from({ length: maxStaleness }, (_, step) => step).reduce(
        (sum, step) => sum + step,
        0,
      );
      expect(figures.staleness).toBeCloseTo((first + (steps - maxStaleness) * maxStaleness) / steps, 6);
    },
  );

  it('does not begin a step earlier than its staleness allows', () => {
    // Both phases overlap in part only: the last rollouts of the bound run alone.
    const { totalMs } = simulate({ ...plain, steps: 2, maxStaleness: 1 });
    expect(totalMs).toBeCloseTo(100 + 50 + 50, 6);
  });

  it('runs waves of rollouts where concurrency or the batch is small', () => {
    expect(simulate({ ...plain, concurrency: 2 }).stepMs).toBeCloseTo(4 * 100 + 50, 6);
    const batch = simulate({ ...plain, sampling: { ...plain.sampling, batch: 4 } });
    expect(batch.stepMs).toBeCloseTo(2 * 100 + 50, 6);
  });

  it('slows replies down by the size of the batch, and spreads them over GPUs', () => {
    const sampling = { gpus: 1, batch: 64, baseMs: 1, eachMs: 0.5 };
    expect(simulate({ ...plain, sampling }).stepMs).toBeCloseTo(100 * (1 + 0.5 * 8) + 50, 6);
    expect(simulate({ ...plain, sampling: { ...sampling, gpus: 4 } }).stepMs).toBeCloseTo(100 * 2 + 50, 6);
  });

  it("has Little's law: rollouts in flight are their rate times their time", () => {
    const reply = { median: 100, sigma: 1, most: 4000 };
    const run = { ...plain, steps: 30, calls: 3, toolMs: 40, maxStaleness: 2, concurrency: 12, reply };
    const { inFlight, rollouts, totalMs, rolloutMs } = simulate(run);
    expect(rollouts).toBe(240);
    expect(inFlight).toBeCloseTo((rollouts / totalMs) * rolloutMs, 6);
  });

  it('uses one server as much as its rate of arrivals times its time of service', () => {
    // Rollouts of many calls with pauses are arrivals to the one thread of the harness.
    const harness = { ...free, callMs: 2, tokenMs: 0.01, rolloutMs: 5 };
    const run = { ...plain, calls: 20, toolMs: 200, harness, steps: 20 };
    const { busy, calls, rollouts, tokens, totalMs } = simulate(run);
    expect(busy.harness).toBeCloseTo((calls * 2 + tokens * 0.01 + rollouts * 5) / totalMs, 6);
    // Where it is the bottleneck, nothing is faster than it.
    const slow = simulate({ ...run, toolMs: 20, harness: { ...harness, callMs: 50 } });
    expect(slow.busy.harness).toBeGreaterThan(0.9);
    expect(slow.stepMs).toBeGreaterThan(8 * 20 * 50);
    expect(
      simulate({ ...run, toolMs: 20, harness: { ...harness, callMs: 50, processes: 8 } }).stepMs,
    ).toBeLessThan(slow.stepMs / 2);
  });

  it('adds the work of harness and service for the job to the step', () => {
    const step = { baseMs: 20, tokenMs: 0.01 };
    const { stepMs, busy } = simulate({ ...plain, harness: { ...free, step }, service: { ...free, step } });
    const expected = 100 + 2 * (20 + 0.01 * 800) + 50;
    expect(stepMs).toBeCloseTo(expected, 6);
    expect(busy.service).toBeCloseTo(28 / expected, 6);
  });

  it('waits in one queue as Pollaczek and Khinchine say', () => {
    // Poisson arrivals at half of the capacity of one server with a fixed time: the mean wait is half of that time.
    const random = randomNumbers(1);
    const core = new Cores(1);
    const count = 200_000;
    let now = 0;
    let waited = 0;
    for (let arrival = 0; arrival < count; arrival++) {
      now -= 2 * Math.log(1 - random());
      waited += core.work(now, 0, 1) - 1 - now;
    }
    expect(waited / count).toBeCloseTo(0.5, 1);
    expect(core.utilisation(now)).toBeCloseTo(0.5, 2);
  });

  it('says what a harness holds when that weighs most', () => {
    // Rollouts of 100 tokens, one after the other: a group is complete with the fourth, a step with its second group.
    const one = { ...plain, concurrency: 1 };
    const none = { queued: 0, inFlight: 0, ended: 0, calls: 0, tokens: 0, arrived: 0, arrivedTokens: 0 };
    const running = { ...none, inFlight: 1, queued: 4, ended: 3, calls: 4, tokens: 400 };
    expect(simulate(one, 0, ({ tokens }) => tokens).held).toEqual(running);
    expect(simulate(one, 0, ({ arrivedTokens }) => arrivedTokens).held).toEqual({
      ...{ ...none, arrived: 8, arrivedTokens: 800 },
    });
    expect(simulate(one, 0, ({ queued }) => queued).held).toEqual({ ...none, queued: 7, inFlight: 1 });
    // The rollouts of the next step end before the job of the first one.
    const late = { ...one, maxStaleness: 1, training: { baseMs: 850, tokenMs: 0 } };
    expect(simulate(late, 0, ({ arrivedTokens }) => arrivedTokens).held).toMatchObject({
      arrived: 16,
      tokens: 0,
    });
    // What weighs most together does not weigh most alone.
    const { held } = simulate(plain, 0, ({ inFlight, tokens }) => 1000 * inFlight + tokens);
    expect(held).toEqual({ ...none, inFlight: 8, calls: 1, tokens: 100 });
  });

  it('repeats itself by seed', () => {
    const run = { ...plain, reply: { median: 50, sigma: 1, most: 500 }, toolMs: 10, calls: 2 };
    expect(simulate(run, 7)).toEqual(simulate(run, 7));
    expect(simulate(run, 7)).not.toEqual(simulate(run, 8));
  });
});

describe('parts of the simulation', () => {
  it('the heap sorts, and keeps the order of arrival among equals', () => {
    const random = randomNumbers(3);
    const heap = new Heap<[number, number]>();
    const all = Array.from({ length: 1000 }, (_, order): [number, number] => [
      Math.floor(random() * 50),
      order,
    ]);
    for (const entry of all) heap.push(entry[0], entry);
    const sorted = all.toSorted(([a, x], [b, y]) => a - b || x - y);
    expect(all.map(() => heap.pop())).toEqual(sorted);
    expect(heap.pop()).toBeUndefined();
  });

  it('replies have the median and the mean of a log-normal distribution', () => {
    const random = randomNumbers(2);
    const reply = { median: 100, sigma: 0.5, most: 1e9 };
    const drawn = Array.from({ length: 100_000 }, () => replyTokens(reply, random)).sort((a, b) => a - b);
    const mean = drawn.reduce((sum, tokens) => sum + tokens, 0) / drawn.length;
    expect(drawn[50_000]! / 100).toBeCloseTo(1, 1);
    expect(mean / (100 * Math.exp(0.125))).toBeCloseTo(1, 1);
  });

  it('a reply that joins a GPU late gets its share from then on', () => {
    const gpu = new Gpu<string>({ batch: 2, baseMs: 0, eachMs: 1 });
    gpu.add(0, 10, 'first');
    gpu.add(4, 10, 'second');
    // The first has 4 tokens at 4 ms; then both get one in 2 ms.
    expect(gpu.nextEnd).toBeCloseTo(16, 9);
    expect(gpu.take(gpu.nextEnd)).toEqual(['first']);
    expect(gpu.nextEnd).toBeCloseTo(20, 9);
    expect(gpu.take(gpu.nextEnd)).toEqual(['second']);
    expect(gpu.busyMs).toBeCloseTo(20, 9);
  });
});
