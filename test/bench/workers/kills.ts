import { setTimeout as sleep } from 'node:timers/promises';
import { randomSource, runGroups } from 'martingale';
import environment from './environment.ts';
import { Fleet } from './fleet.ts';

export interface Kills {
  rollouts: number;
  /** Rollouts that did not complete. */
  lost: number;
  /** Rollouts that came twice, by their group and index, or by their trajectory. */
  doubled: number;
  /** How often a rollout was given again. */
  givenAgain: number;
  /** Results that came after another had counted. */
  ignored: number;
  seconds: number;
}

const workers = 4;

/** Kills workers at random times, one after the other, while rollouts run on them. */
export async function killWorkers(kills: number, { seed = 1 } = {}): Promise<Kills> {
  const random = randomSource(seed);
  const startedAt = performance.now();
  await using fleet = await Fleet.open({ delayMs: 15, leaseMs: 500 });
  const alive = Array.from({ length: workers }, () => fleet.start(8));
  await fleet.joined(workers);
  let left = kills;
  const killing = (async () => {
    for (; left > 0; left--) {
      await sleep(100 + 400 * random());
      const at = Math.floor(random() * workers);
      alive[at]?.kill('SIGKILL');
      alive[at] = fleet.start(8);
    }
  })();
  const sum = { rollouts: 0, lost: 0, doubled: 0 };
  for (let round = 0; left > 0; round++) {
    const { counts, groups } = await runGroups({
      environment,
      scenarios: Array.from({ length: 50 }, (_, id) => ({ id, turns: 8 })),
      rolloutsPerGroup: 8,
      model: fleet.model,
      executor: fleet.executor,
      seed: round,
    });
    const rollouts = groups.flatMap((group) => group.rollouts.map((one) => ({ group: group.index, ...one })));
    const places = new Set(rollouts.map(({ group, index }) => `${group}/${index}`));
    const trajectories = new Set(rollouts.map(({ trajectory }) => trajectory.id));
    sum.rollouts += counts.dispatched;
    sum.lost += 400 - counts.completed;
    sum.doubled += 2 * rollouts.length - places.size - trajectories.size;
  }
  await killing;
  const { givenAgain, ignored } = fleet.executor.stats();
  return { ...sum, givenAgain, ignored, seconds: (performance.now() - startedAt) / 1000 };
}
