import { expect, test } from 'vitest';
import { checkRun, free } from './check.ts';
import { startTimedService } from './real-run.ts';
import { unitsOf } from './units.ts';

// The set times are long beside our own work, which costs nothing in this prediction.
const run = {
  steps: 4,
  groupsPerStep: 4,
  rolloutsPerGroup: 4,
  concurrency: 32,
  calls: 2,
  toolMs: 0,
  reply: { median: 100, sigma: 0, most: 100 },
  sampling: { gpus: 2, batch: 8, baseMs: 10, eachMs: 0.5 },
  training: { baseMs: 2000, tokenMs: 0.1 },
};

test.each([0, 1])(
  'a real run takes the time that the simulation says, with staleness %i',
  {
    tags: ['long'],
    retry: 2,
  },
  async (maxStaleness) => {
    await using service = await startTimedService(run);
    const costs = { harness: free, service: free };
    const { predicted, measured } = await checkRun(service, { ...run, maxStaleness }, costs);
    // A busy machine takes longer than the times that are set, never less; `npm run bench:sizing` shows how close it is.
    expect(measured.stepMs / predicted.stepMs).toBeGreaterThan(0.85);
    expect(measured.stepMs / predicted.stepMs).toBeLessThan(1.6);
    expect(measured.inFlight / predicted.inFlight).toBeGreaterThan(0.6);
    expect(measured.inFlight / predicted.inFlight).toBeLessThan(1.15);
    expect(measured.staleness).toBe(predicted.staleness);
  },
);

test('unit costs are those that the sums were made of', () => {
  const units = { token: 0.5, call: 3, rollout: 20, group: 7, step: 1000 };
  const counts = [
    { token: 4096, call: 256, rollout: 256, group: 32, step: 1 },
    { token: 69632, call: 256, rollout: 256, group: 32, step: 1 },
    { token: 16384, call: 1024, rollout: 256, group: 32, step: 1 },
    { token: 4096, call: 256, rollout: 256, group: 8, step: 1 },
    { token: 512, call: 32, rollout: 32, group: 4, step: 1 },
  ];
  const sums = counts.map(
    ({ token, call, rollout, group, step }) =>
      token * units.token +
      call * units.call +
      rollout * units.rollout +
      group * units.group +
      step * units.step,
  );
  const found = unitsOf(counts, sums);
  for (const name of ['token', 'call', 'rollout', 'group', 'step'] as const)
    expect(found[name]).toBeCloseTo(units[name], 6);
  expect(() => unitsOf([...counts.slice(0, 4), counts[0]!], sums)).toThrow('designs');
});
