import { ModelHandle, runGroups, workerThreads } from 'martingale';
import { expect, it, onTestFinished } from 'vitest';
import { startFakeService } from '../../model/fake-service.ts';
import { game } from './game.ts';

async function open() {
  const service = await startFakeService({ policy: ({ seed }) => ({ text: String(Number(seed) % 10) }) });
  onTestFinished(() => service[Symbol.asyncDispose]());
  const handle = (name: string) => new ModelHandle({ client: service.client, name });
  return { model: handle('local/p/own:step1'), other: handle('local/p/other:step2') };
}

function threads(options: { environment?: URL } = {}) {
  const environment = new URL('./game.ts', import.meta.url);
  const executor = workerThreads({ environment, exportName: 'game', threads: 2, ...options });
  onTestFinished(() => executor.close());
  return executor;
}

it('rollouts with seats are the same in worker threads as in process', async () => {
  const { model, other } = await open();
  const run = async (where: object) => {
    const { groups } = await runGroups({
      environment: game,
      scenarios: [{ rounds: 2 }, { rounds: 1 }],
      rolloutsPerGroup: 3,
      model,
      seats: { second: other },
      seed: 5,
      ...where,
    });
    return groups.flatMap(({ rollouts }) =>
      rollouts.map(({ seats, ...rollout }) => ({
        reward: rollout.status === 'completed' && rollout.reward,
        isMain: seats?.map(({ trajectory }) => trajectory === rollout.trajectory),
        seats: seats?.map(({ trajectory, ...seat }) => {
          const { start_time: _, ...body } = trajectory.toBody();
          return { ...seat, body, versions: trajectory.policyVersions };
        }),
      })),
    );
  };
  const inThreads = await run({ executor: threads() });
  expect(inThreads).toEqual(await run({}));
  expect(inThreads[0]).toMatchObject({
    isMain: [true, false],
    seats: [
      { seat: 'first', model: 'local/p/own:step1', trains: true, versions: [1, 1] },
      { seat: 'second', model: 'local/p/other:step2', trains: false, versions: [2, 2] },
    ],
  });
});

it('a rollout that is lost with its thread has all its seats', async () => {
  const { model } = await open();
  const { groups } = await runGroups({
    environment: game,
    scenarios: [{ rounds: 1 }],
    rolloutsPerGroup: 2,
    model,
    executor: threads({ environment: new URL('./nowhere.ts', import.meta.url) }),
  });
  const [group] = groups;
  expect(group?.rollouts.map(({ status, seats }) => [status, seats?.map(({ seat }) => seat)])).toEqual(
    Array(2).fill(['failed', ['first', 'second']]),
  );
  expect(group?.bySeat().map(({ isTrainable }) => isTrainable)).toEqual([false, false]);
});
