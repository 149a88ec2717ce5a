import { describe, expect, it } from 'vitest';
import { Random } from '../../../src/engines/embedded/random.ts';
import {
  countEnd,
  type LostRuns,
  lostRunsMessage,
  machineSigns,
  maxLost,
} from '../../../src/service/store/lost-runs.ts';

const none: LostRuns = { lost: 0, ends: 0, memoryEnds: 0, ranMs: null, alike: 0 };
const here = { boot: 'a', memoryKills: 3 };

/** How many runs of these lengths, one after another, are lost until the job fails; null if it does not. */
function endsUntilFailure(lengths: Iterable<number>, now = here): number | null {
  let runs = none;
  for (const ranMs of lengths) {
    if (runs.lost >= maxLost) return runs.ends;
    runs = countEnd(runs, { ...here, ranMs }, now);
  }
  return runs.lost >= maxLost ? runs.ends : null;
}

/** The share of jobs that fail for good although only the machine is taken away, after lives that are exponential. */
function failures({ jobMs, meanLifeMs }: { jobMs: number; meanLifeMs: number }): number {
  const random = new Random(7);
  const jobs = 4000;
  let failed = 0;
  for (let job = 0; job < jobs; job++) {
    let runs = none;
    for (;;) {
      const lifeMs = -meanLifeMs * Math.log(1 - random.uniform());
      if (lifeMs >= jobMs) break;
      // The time is noted every two seconds.
      runs = countEnd(runs, { ...here, ranMs: Math.floor(lifeMs / 2000) * 2000 }, here);
      if (runs.lost < maxLost) continue;
      failed++;
      break;
    }
  }
  return failed / jobs;
}

describe('a job whose process ends again and again', () => {
  it('fails soon if each run ends at the same place', () => {
    for (const ranMs of [0, 10_000, 600_000, 3_600_000])
      expect(endsUntilFailure(Array(100).fill(ranMs))).toBe(10);
  });

  it('fails at the eighth time that the system has killed for memory', () => {
    const lengths = Array.from({ length: 100 }, (_, index) => 1000 * 2 ** (index % 12));
    expect(endsUntilFailure(lengths, { boot: 'a', memoryKills: 4 })).toBe(8);
  });

  it('never fails because the machine went away', () => {
    expect(endsUntilFailure(Array(1000).fill(10_000), { boot: 'b', memoryKills: 0 })).toBeNull();
  });

  it('fails at last even if nothing points to it', () => {
    const random = new Random(3);
    const lengths = Array.from({ length: 5000 }, () => 120_000 * random.uniform());
    expect(endsUntilFailure(lengths)).toBeGreaterThan(30);
  });

  // When each end counted the same, at the eighth: 0.4 %, 16 %, 48 % at one, two and three mean lives.
  it.each([
    [1, 0.0005],
    [2, 0.002],
    [3, 0.04],
  ])('hardly ever fails if it takes %i mean lives of a process', (lives, most) => {
    for (const meanLifeMs of [60_000, 600_000])
      expect(failures({ jobMs: lives * meanLifeMs, meanLifeMs })).toBeLessThanOrEqual(most);
  });

  it('is told what was seen, and blames nothing else', () => {
    expect(lostRunsMessage({ ...none, ends: 40 })).toBe(
      'The whole service ended 40 times while this job ran, without a further gradient step. Look for the reason in the logs of the system and the service, then send it again.',
    );
    expect(lostRunsMessage({ ...none, ends: 9, memoryEnds: 8 })).toMatch(
      /: 8 times while the system killed a process for its memory\. Send it with fewer or shorter/,
    );
    expect(lostRunsMessage({ ...none, ends: 10, alike: 9, ranMs: 12_300 })).toContain(
      'the last 10 times after about as long a run, 12 s',
    );
  });

  it('knows the machine on Linux', () => {
    if (process.platform === 'linux')
      expect(machineSigns()).toMatchObject({ boot: expect.stringMatching(/^[0-9a-f-]{36}$/) });
  });
});
