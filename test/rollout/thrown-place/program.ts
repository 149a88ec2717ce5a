// Runs rollouts that throw, in this process and in worker threads, and prints their failures and logs as JSON.
import { inProcess, ModelHandle, runGroups, workerThreads } from '../../../src/index.ts';
import { toGroupRecord } from '../../../src/records.ts';
import { startFakeService } from '../../model/fake-service.ts';
import environment, { scenario } from './faulty.ts';

const service = await startFakeService({
  policy: ({ messages }) =>
    messages.at(-1)?.content === 'call look'
      ? { toolCalls: [{ name: 'look', arguments: '{}' }] }
      : { text: 'yes' },
});
const executors = {
  process: inProcess(),
  threads: workerThreads({ environment: new URL('./faulty.ts', import.meta.url), threads: 1 }),
};
for (const [where, executor] of Object.entries(executors)) {
  const { groups } = await runGroups({
    environment,
    scenarios: scenario.shape.throws.options.map((throws) => ({ throws })),
    rolloutsPerGroup: 1,
    model: new ModelHandle({ client: service.client, name: 'local/p/n:step1' }),
    executor,
  });
  await executor.close();
  for (const group of groups) {
    const { failures, trajectories } = toGroupRecord(group);
    const [failure] = failures;
    const { throws } = scenario.parse(group.scenario);
    const { logs } = failure?.trajectory ?? trajectories[0] ?? {};
    console.log(JSON.stringify({ where, throws, failure, logs }));
  }
}
await service[Symbol.asyncDispose]();
