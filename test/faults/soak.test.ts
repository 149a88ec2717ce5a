import {
  callBudget,
  type GroupsResult,
  ModelHandle,
  type RolloutCounts,
  type RunGroupsOptions,
  runGroups,
  workerThreads,
} from 'martingale';
import { countRollouts } from 'martingale/loop';
import { expect, test } from 'vitest';
import environment, { doingOf } from './environments/failing.ts';
import { startFailingService } from './failing-service.ts';

type Options = Omit<
  RunGroupsOptions<typeof environment.scenario, string>,
  'environment' | 'scenarios' | 'model' | 'rolloutsPerGroup'
>;

const rolloutsPerGroup = 8;
const scenarios = (groups: number) => Array.from({ length: groups }, (_, id) => ({ id }));

/** Timers, sockets, threads: what keeps a process alive. Those of the test runner exist before. */
const holding = () =>
  process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout' || kind === 'Immediate').length;

function balance(result: GroupsResult<unknown>): void {
  const rollouts = result.groups.flatMap((group) => group.rollouts);
  const { dispatched, completed, failed, cancelled } = result.counts;
  expect(result.counts).toEqual(countRollouts(rollouts));
  expect(dispatched).toBe(completed + failed + cancelled);
  for (const group of result.groups) {
    const own = countRollouts(group.rollouts);
    expect(own.dispatched).toBeGreaterThanOrEqual(rolloutsPerGroup);
    expect(group.trajectories).toHaveLength(own.completed);
    expect(group.isTrainable).toBe(group.droppedBecause === null);
  }
  for (const { trajectory, ...rollout } of rollouts) {
    // A closed trajectory records nothing more, whatever the agent left running.
    expect(() => trajectory.startCall()).toThrow(expect.objectContaining({ code: 'trajectory_closed' }));
    expect(trajectory.reward !== null).toBe(rollout.status === 'completed');
    if (rollout.status === 'completed') expect(trajectory.histories.length).toBeGreaterThan(0);
    else expect(rollout.failure).toMatchObject({ code: expect.any(String), message: expect.any(String) });
  }
}

/** Runs rollouts that fail in every way: each must end, and their counts must balance. */
async function failsInEveryWay(thousands: number): Promise<void> {
  const held = holding();
  const service = await startFailingService();
  const budget = callBudget({ concurrency: { min: 8, max: 256, start: 32 } });
  const model = new ModelHandle({ client: service.client, name: 'local/p/n:step1' });
  const run = async (groups: number, options: Options): Promise<GroupsResult<unknown>> => {
    const result = await runGroups({
      environment,
      scenarios: scenarios(groups),
      rolloutsPerGroup,
      model: model.with({ budget, callTimeoutMs: 700 }),
      timeoutMs: 1_500,
      rewardTimeoutMs: 300,
      ...options,
    });
    balance(result);
    return result;
  };
  const executor = workerThreads({
    environment: new URL('./environments/failing.ts', import.meta.url),
    threads: 2,
    concurrency: 24,
    graceMs: 300,
  });
  const stop = new AbortController();
  let ended = 0;
  const results = await Promise.all([
    run(40 * thousands, { seed: 1, concurrency: 40 * thousands }),
    run(30 * thousands, {
      seed: 2,
      concurrency: 20 * thousands,
      groupStrategy: { type: 'retry', attempts: 3, minimum: 6 },
    }),
    run(20 * thousands, { seed: 3, concurrency: 20 * thousands, groupStrategy: { type: 'fail_fast' } }),
    run(20 * thousands, { seed: 4, concurrency: 8 * thousands, groupTimeoutMs: 2_500 }),
    run(16 * thousands, {
      seed: 5,
      concurrency: 20 * thousands,
      signal: stop.signal,
      onProgress: () => ++ended === 40 * thousands && stop.abort(new Error('the run is over')),
    }),
    // Few of the drawn rollouts end a thread.
    run(10 + 3 * thousands, { seed: 6, executor }),
  ]);
  await executor.close();

  const rollouts = results.flatMap((result) => result.groups.flatMap((group) => group.rollouts));
  const counts: RolloutCounts = countRollouts(rollouts);
  expect(counts.dispatched).toBeGreaterThanOrEqual(1000 * thousands);
  const codes = new Set(
    rollouts.map((rollout) => (rollout.status === 'completed' ? 'completed' : rollout.failure.code)),
  );
  for (const code of [
    ...['completed', 'Error', 'rollout_timeout', 'model_call_timeout', 'service_failed', 'connection_failed'],
    ...['reward_failed', 'reward_timeout', 'metric_not_finite', 'nothing_recorded', 'thrown'],
    ...['sibling_failed', 'cancelled', 'worker_died'],
  ])
    expect([...codes]).toContain(code);
  expect(results[4]?.counts.cancelled).toBeGreaterThan(0);
  expect(results[2]?.counts.cancelled).toBeGreaterThan(0);
  expect(results[1]?.groups.some(({ rollouts: tried }) => tried.some(({ attempt }) => attempt > 0))).toBe(
    true,
  );

  // A rollout drawn to fail never counts as completed.
  for (const [at, { groups }] of results.entries())
    for (const { seed, status } of groups.flatMap((group) => group.rollouts))
      if (['throws', 'hangs', 'badReward', 'exits', 'spins'].includes(doingOf(seed, at === 5)))
        expect(status).not.toBe('completed');

  // The service failed in every way.
  expect(Object.values(service.met).every((count) => count > 0)).toBe(true);
  await expect.poll(() => budget.stats()).toMatchObject({ inFlight: 0, waiting: 0 });
  await service[Symbol.asyncDispose]();
  await expect.poll(holding).toBeLessThanOrEqual(held);
}

test(
  '1,000 rollouts that fail in every way end one by one, and their counts balance',
  { tags: ['long'] },
  () => failsInEveryWay(1),
);

test(
  '5,000 rollouts that fail in every way end one by one, and their counts balance',
  {
    tags: ['long'],
  },
  () => failsInEveryWay(5),
);
