import { monitorEventLoopDelay } from 'node:perf_hooks';
import { inProcess, type RolloutExecutor, runGroups } from 'martingale';
import { head, machine, row, whole } from '../table.ts';
import environment from './environment.ts';
import { Fleet } from './fleet.ts';
import { killWorkers } from './kills.ts';

/** Milliseconds that the service takes for an answer. */
const delayMs = 200;
const rolloutsPerGroup = 8;

interface Measured {
  perSecond: number;
  /** CPU time of the program for a rollout, in milliseconds. */
  cpuMs: number;
  lagP99: number;
}

/** Rollouts of one call each, all dispatched at once. */
async function measure(fleet: Fleet, executor: RolloutExecutor, rollouts: number): Promise<Measured> {
  const lag = monitorEventLoopDelay({ resolution: 1 });
  lag.enable();
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  const { counts } = await runGroups({
    environment,
    scenarios: Array.from({ length: rollouts / rolloutsPerGroup }, (_, id) => ({ id })),
    rolloutsPerGroup,
    model: fleet.model,
    executor,
  });
  const seconds = (performance.now() - startedAt) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  lag.disable();
  if (counts.completed !== rollouts) throw new Error(`not all completed: ${JSON.stringify(counts)}`);
  return {
    perSecond: rollouts / seconds,
    cpuMs: (user + system) / 1000 / rollouts,
    lagP99: lag.percentile(99) / 1e6 - 1,
  };
}

console.log(machine);
const given = process.argv.indexOf('--kills');
const kills = given < 0 ? 0 : Number(process.argv[given + 1]);

console.log(
  `\nWorkers of 64 rollouts at a time, rollouts of one call of ${delayMs} ms, 10,000 dispatched at once:\n`,
);
head(
  'workers',
  'a second',
  'of what the service allows',
  'CPU of the program for a rollout, ms',
  'loop delay p99, ms',
);
for (const workers of [1, 2, 4]) {
  await using fleet = await Fleet.open({ delayMs, leaseMs: 30_000 });
  for (let at = 0; at < workers; at++) fleet.start(64);
  await fleet.joined(workers);
  const { perSecond, cpuMs, lagP99 } = await measure(fleet, fleet.executor, 10_000);
  const ideal = (workers * 64 * 1000) / delayMs;
  row(
    workers,
    whole(perSecond),
    `${Math.round((100 * perSecond) / ideal)}%`,
    cpuMs.toFixed(2),
    lagP99.toFixed(1),
  );
}

console.log('\nThe same rollouts, 1,000 in flight, in the program and in one worker:\n');
head('where', 'a second', 'CPU of the program for a rollout, ms', 'loop delay p99, ms');
{
  await using fleet = await Fleet.open({ delayMs, leaseMs: 30_000 });
  fleet.start(1000);
  await fleet.joined(1);
  const here = inProcess({ concurrency: 1000 });
  // Each first run warms its process.
  for (const executor of [here, fleet.executor]) await measure(fleet, executor, 4000);
  for (const [where, executor] of [
    ['in the program', here],
    ['in one worker', fleet.executor],
    ['in the program', here],
    ['in one worker', fleet.executor],
  ] as const) {
    const { perSecond, cpuMs, lagP99 } = await measure(fleet, executor, 10_000);
    row(where, whole(perSecond), cpuMs.toFixed(2), lagP99.toFixed(1));
  }
  await here.close();
}

if (kills > 0) {
  console.log(
    `\nFour workers, one of which is killed at a random time and replaced, ${whole(kills)} times:\n`,
  );
  const { rollouts, lost, doubled, givenAgain, ignored, seconds } = await killWorkers(kills);
  head('kills', 'rollouts', 'lost', 'doubled', 'given again', 'late results', 'seconds');
  row(kills, whole(rollouts), lost, doubled, whole(givenAgain), ignored, whole(seconds));
}
