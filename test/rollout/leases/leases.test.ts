import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  callBudget,
  createClient,
  inProcess,
  ModelHandle,
  type RolloutExecutor,
  runGroups,
} from 'martingale';
import { leases } from 'martingale/workers';
import { expect, it, onTestFinished } from 'vitest';
import { martingaleVersion } from '../../../src/util/version.ts';
import { freePort } from '../../support/free-port.ts';
import echoing from './echoing.ts';
import { environment, joined, open, startWorker, workHere } from './workers.ts';

const scenarios = (count: number) => Array.from({ length: count }, (_, id) => ({ id }));

type Opened = { model: ModelHandle; executor: RolloutExecutor };

const run = (
  { model, executor }: Opened,
  options: Partial<Parameters<typeof runGroups<typeof echoing.scenario, unknown>>[0]> = {},
) =>
  runGroups({
    environment: echoing,
    scenarios: scenarios(6),
    rolloutsPerGroup: 4,
    model,
    executor,
    seed: 3,
    ...options,
  });

/** What of groups must be the same wherever they run. */
const bodies = ({ groups }: Awaited<ReturnType<typeof run>>) =>
  groups.map((group) => {
    const { trajectories, ...rest } = group.toTrajectoryGroup().toBody();
    const plain = trajectories.map(({ start_time: _, logs: __, ...body }) => body);
    return {
      ...rest,
      trajectories: plain,
      outcomes: group.rollouts.map((one) => 'outcome' in one && one.outcome),
    };
  });

it('rollouts run on several workers and come back whole, the same as in one process', async () => {
  const opened = await open();
  const { executor, events, model } = opened;
  const workers = [1, 2].map(() => startWorker(['--url', executor.url, '--concurrency', '4']));
  await joined(executor, 2);
  const result = await run(opened);
  expect(result.counts).toEqual({ dispatched: 24, completed: 24, failed: 0, cancelled: 0 });
  const where = new Set(
    result.groups.flatMap((group) => group.rollouts).flatMap(({ trajectory }) => trajectory.logs),
  );
  expect([...where].sort()).toEqual(workers.map(({ process }) => `pid ${process.pid} thread 0`).sort());
  expect(bodies(result)).toEqual(bodies(await run({ model, executor: inProcess() })));
  expect(executor.stats()).toMatchObject({ waiting: 0, running: 0, givenAgain: 0, ignored: 0 });
  await executor.close();
  expect(await Promise.all(workers.map(({ ended }) => ended))).toEqual([0, 0]);
  expect(workers[0]?.lines()).toMatch(/needs no workers any more/);
  expect(events).toEqual(['joined', 'joined', 'left', 'left']);
});

it('rollouts wait for the first worker, and a worker for the program', async () => {
  const { executor: first } = await open();
  const { port } = new URL(first.url);
  await first.close();
  const early = startWorker(['--url', first.url]);
  while (!early.lines().includes('cannot be reached')) await new Promise((next) => setTimeout(next, 20));
  const opened = await open({ port: Number(port) });
  expect((await run(opened)).counts).toMatchObject({ completed: 24 });
});

it('a worker that joins while the service is away waits for it', async () => {
  const { executor, service } = await open();
  const worker = workHere(['--url', executor.url]);
  await joined(executor, 1);
  const port = await freePort();
  // Its retries alone would last 0.6 s, and the wait for a service that is away lasts 12 s.
  const client = createClient({
    ...service.client.options,
    baseUrl: `http://127.0.0.1:${port}`,
    backoffMs: 20,
    awayMs: 12_000,
  });
  const result = run({ executor, model: new ModelHandle({ client, name: 'local/p/n:step1' }) });
  await sleep(900);
  const { hostname, port: served } = new URL(service.client.options.baseUrl);
  const relay = createServer((socket) => {
    const onward = connect(Number(served), hostname);
    socket.pipe(onward).pipe(socket);
    for (const [from, to] of [
      [socket, onward],
      [onward, socket],
    ] as const)
      from.on('error', () => to.destroy());
  });
  onTestFinished(() => void relay.close());
  relay.listen(port, '127.0.0.1');
  expect((await result).counts).toMatchObject({ completed: 24 });
  await executor.close();
  expect((await worker).code).toBe(0);
});

it('a worker with threads runs rollouts in them', { tags: ['long'] }, async () => {
  const opened = await open();
  startWorker(['--url', opened.executor.url, '--threads', '2']);
  const { groups, counts } = await run(opened);
  expect(counts).toMatchObject({ completed: 24 });
  const where = groups.flatMap((group) => group.rollouts).flatMap(({ trajectory }) => trajectory.logs);
  expect(new Set(where).size).toBe(2);
  expect(where.every((line) => !line.endsWith('thread 0'))).toBe(true);
});

it('a worker that is killed loses its rollouts to another, and each counts once', async () => {
  let calls = 0;
  const opened = await open({ leaseMs: 1000 }, async ({ messages }) => {
    calls++;
    await new Promise((next) => setTimeout(next, 30));
    return { text: `re: ${String(messages.at(-1)?.content)}` };
  });
  const { executor, events } = opened;
  const killed = startWorker(['--url', executor.url, '--concurrency', '8', '--name', 'doomed']);
  await joined(executor, 1);
  const running = run(opened, { scenarios: scenarios(12).map((one) => ({ ...one, turns: 3 })) });
  while (calls < 20) await new Promise((next) => setTimeout(next, 5));
  killed.process.kill('SIGKILL');
  const other = workHere(['--url', executor.url, '--concurrency', '8']);
  const { counts, groups } = await running;
  expect(counts).toEqual({ dispatched: 48, completed: 48, failed: 0, cancelled: 0 });
  const seeds = groups.flatMap((group) =>
    group.rollouts.map(({ seed, index }) => `${group.index}/${index}/${seed}`),
  );
  expect(new Set(seeds).size).toBe(48);
  expect(events).toContain('lost');
  expect(executor.stats().givenAgain).toBeGreaterThan(0);
  await executor.close();
  expect((await other).code).toBe(0);
});

it('a program that was held up for longer than a lease loses no worker', { tags: ['long'] }, async () => {
  const opened = await open({ leaseMs: 2000 }, async ({ messages }) => {
    await new Promise((next) => setTimeout(next, 30));
    return { text: `re: ${String(messages.at(-1)?.content)}` };
  });
  const { executor, events } = opened;
  startWorker(['--url', executor.url, '--concurrency', '2']);
  await joined(executor, 1);
  const running = run(opened, { scenarios: scenarios(20) });
  while ((executor.stats().workers[0]?.ended ?? 0) < 8) await new Promise((next) => setTimeout(next, 5));
  for (const until = performance.now() + 2300; performance.now() < until; );
  expect((await running).counts).toMatchObject({ completed: 80 });
  expect(events).toEqual(['joined']);
});

it('a worker that was stopped for too long brings what it had finished, and what others have brought is not counted again', {
  tags: ['long'],
}, async () => {
  const opened = await open({ leaseMs: 600 }, async ({ messages }) => {
    await new Promise((next) => setTimeout(next, 20));
    return { text: `re: ${String(messages.at(-1)?.content)}` };
  });
  const { executor, events } = opened;
  const frozen = startWorker(['--url', executor.url, '--concurrency', '4', '--name', 'frozen']);
  await joined(executor, 1);
  const running = run(opened, { scenarios: scenarios(25) });
  while ((executor.stats().workers[0]?.ended ?? 0) < 8) await new Promise((next) => setTimeout(next, 5));
  frozen.process.kill('SIGSTOP');
  await joined(executor, 0);
  frozen.process.kill('SIGCONT');
  const { counts } = await running;
  expect(counts).toEqual({ dispatched: 100, completed: 100, failed: 0, cancelled: 0 });
  expect(events.slice(0, 3)).toEqual(['joined', 'lost', 'joined']);
  expect(frozen.lines()).toMatch(/others get its rollouts/);
});

it('SIGTERM lets a worker finish what it has, within its time, and gives back the rest', {
  tags: ['long'],
}, async () => {
  const opened = await open({ leaseMs: 60_000 });
  const { executor, events } = opened;
  const leaving = startWorker(['--url', executor.url, '--concurrency', '8', '--stop-within', '1']);
  await joined(executor, 1);
  const running = run(opened, {
    scenarios: [{ id: 0, does: 'hang' }, ...scenarios(3)],
    rolloutsPerGroup: 1,
    timeoutMs: 6_000,
  });
  while ((executor.stats().workers[0]?.ended ?? 0) < 3) await new Promise((next) => setTimeout(next, 5));
  leaving.process.kill('SIGTERM');
  expect(await leaving.ended).toBe(0);
  expect(leaving.lines()).toMatch(/4 rollouts: 3 completed, 0 failed, 1 cancelled or given back/);
  expect(executor.stats()).toMatchObject({ workers: [], waiting: 1, givenAgain: 1 });
  startWorker(['--url', executor.url]);
  expect((await running).counts).toEqual({ dispatched: 4, completed: 3, failed: 1, cancelled: 0 });
  expect(events.slice(0, 2)).toEqual(['joined', 'left']);
});

it('a rollout that ends its worker again and again fails, and the others do not', async () => {
  const opened = await open({ leaseMs: 600, maxLosses: 2 });
  const { executor } = opened;
  let isDone = false;
  const again = async (): Promise<void> => {
    if (isDone) return;
    await startWorker(['--url', executor.url, '--concurrency', '1']).ended;
    return again();
  };
  const workers = again();
  const { groups, counts } = await run(opened, {
    scenarios: [{ id: 0, does: 'exit' }, ...scenarios(3)],
    rolloutsPerGroup: 1,
  });
  isDone = true;
  expect(counts).toMatchObject({ completed: 3, failed: 1 });
  expect(groups[0]?.rollouts[0]).toMatchObject({
    failure: { code: 'worker_died', message: expect.stringMatching(/2 workers were lost/) },
  });
  await executor.close();
  await workers;
});

it('what a rollout throws, or cannot send, is its failure; its deadline too', {
  tags: ['long'],
}, async () => {
  const opened = await open();
  startWorker(['--url', opened.executor.url]);
  const { groups } = await run(opened, {
    scenarios: (['throw', 'returnFunction', 'hang'] as const).map((does, id) => ({ id, does })),
    rolloutsPerGroup: 1,
    timeoutMs: 2000,
  });
  expect(groups.map(({ rollouts: [one] }) => one?.status === 'failed' && one.failure.code)).toEqual([
    'RangeError',
    'outcome_not_cloneable',
    'rollout_timeout',
  ]);
});

it('a rollout that its worker cannot read fails, and the worker goes on', async () => {
  const opened = await open();
  const worker = workHere(['--url', opened.executor.url, '--name', 'one']);
  // A clone of such a depth can be written, but not read.
  let nested: object = {};
  for (let depth = 0; depth < 2500; depth++) nested = { nested };
  const { groups } = await run(opened, { scenarios: [{ id: 0, nested }, { id: 1 }], rolloutsPerGroup: 1 });
  expect(groups.map(({ rollouts: [one] }) => one)).toMatchObject([
    {
      failure: {
        code: 'task_not_cloneable',
        message: expect.stringMatching(/cannot begin the rollout.*call stack.*\(on worker one\)/s),
      },
    },
    { status: 'completed' },
  ]);
  await opened.executor.close();
  expect((await worker).code).toBe(0);
});

it('a cancelled run cancels rollouts that wait and those that a worker has', async () => {
  const stop = new AbortController();
  const opened = await open();
  const { executor } = opened;
  const worker = workHere(['--url', executor.url, '--concurrency', '2']);
  const running = run(opened, {
    scenarios: scenarios(4).map((one) => ({ ...one, does: 'hang' as const })),
    rolloutsPerGroup: 1,
    signal: stop.signal,
  });
  while (executor.stats().running < 2) await new Promise((next) => setTimeout(next, 5));
  stop.abort(new Error('Ctrl-C'));
  const { counts, groups } = await running;
  expect(counts).toEqual({ dispatched: 4, completed: 0, failed: 0, cancelled: 4 });
  for (const { rollouts } of groups)
    expect(rollouts[0]).toMatchObject({ failure: { message: expect.stringMatching(/Ctrl-C/) } });
  expect(executor.stats()).toMatchObject({ waiting: 0, running: 0 });
  await executor.close();
  expect((await worker).code).toBe(0);
});

it('calls of all workers share one budget, and a lost worker releases its slots', async () => {
  let inFlight = 0;
  let most = 0;
  let calls = 0;
  const opened = await open({ leaseMs: 800 }, async ({ messages }) => {
    calls++;
    most = Math.max(most, ++inFlight);
    await new Promise((next) => setTimeout(next, 10));
    inFlight--;
    return { text: `re: ${String(messages.at(-1)?.content)}` };
  });
  const { executor } = opened;
  const budget = callBudget({ concurrency: 3 });
  const doomed = startWorker(['--url', executor.url, '--concurrency', '8']);
  const other = workHere(['--url', executor.url, '--concurrency', '8']);
  await joined(executor, 2);
  const running = run({ ...opened, model: opened.model.with({ budget }) });
  while (calls < 6) await new Promise((next) => setTimeout(next, 2));
  doomed.process.kill('SIGKILL');
  expect((await running).counts).toMatchObject({ completed: 24 });
  expect(most).toBeLessThanOrEqual(3);
  expect(budget.stats()).toMatchObject({ inFlight: 0, waiting: 0, peak: 3 });
  await executor.close();
  expect((await other).code).toBe(0);
});

it('workers with another key, version or environment are refused by name', async () => {
  const { executor, events } = await open({ apiKey: 'right' });
  const wrong = await workHere(['--url', executor.url, '--key', 'wrong']);
  const other = await workHere(['--url', executor.url], {
    file: new URL('../environments/threaded.ts', environment).pathname,
    env: { MARTINGALE_WORKER_KEY: 'right' },
  });
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toMatch(/key is missing or not the `apiKey` of the program.*--key.*worker_refused/);
  expect(other.code).toBe(1);
  expect(other.stderr).toMatch(/environment is not the one of the program: .*echoing.ts/);
  const join = async (more: object) => {
    const response = await fetch(`${executor.url}/workers`, {
      method: 'POST',
      headers: { authorization: 'Bearer right', 'content-type': 'application/json' },
      body: JSON.stringify({
        name: 'by hand',
        martingale: martingaleVersion,
        cloneFormat: 15,
        environment: 'echoing',
        files: {},
        concurrency: 1,
        ...more,
      }),
    });
    return { status: response.status, body: await response.json() };
  };
  expect(await join({ martingale: '0.0.0' })).toMatchObject({
    status: 409,
    body: { error: { code: 'version_mismatch', message: expect.stringMatching(/martingale 0\.0\.0/) } },
  });
  expect(await join({ cloneFormat: 1 })).toMatchObject({ body: { error: { code: 'version_mismatch' } } });
  expect(await join({ concurrency: 'many' })).toMatchObject({ status: 400 });
  expect(events.filter((type) => type === 'refused')).toHaveLength(4);
});

it('a worker ends although its environment keeps something open', async () => {
  const module = new URL('./leaky.ts', import.meta.url);
  const { executor, model } = await open({ environment: module });
  const worker = startWorker(['--url', executor.url], { file: module.pathname });
  const { default: leaky } = await import('./leaky.ts');
  const { counts } = await runGroups({
    ...{ environment: leaky, scenarios: [{ id: 1 }], rolloutsPerGroup: 1 },
    ...{ model, executor },
  });
  expect(counts).toMatchObject({ completed: 1 });
  await executor.close();
  expect(await worker.ended).toBe(0);
  expect(worker.lines()).toMatch(/Exited although something was still running/);
});

it('a worker that is sent to the service is told so', async () => {
  const { model } = await open();
  const { code, stderr } = await workHere(['--url', model.client.options.baseUrl, '--wait', '1']);
  expect(code).toBe(1);
  expect(stderr).toMatch(/is not a program with leases\(\).*not the service/);
});

it('an `onEvent` that throws costs nothing but a warning', async () => {
  const warnings: string[] = [];
  const listen = (warning: Error) => void warnings.push(warning.message);
  process.on('warning', listen);
  onTestFinished(() => void process.off('warning', listen));
  const opened = await open({
    onEvent: () => {
      throw new RangeError('out of ink');
    },
  });
  const worker = workHere(['--url', opened.executor.url]);
  expect((await run(opened, { scenarios: scenarios(1) })).counts).toMatchObject({ completed: 4 });
  await opened.executor.close();
  expect((await worker).code).toBe(0);
  expect(warnings).toContainEqual(expect.stringMatching(/`onEvent` threw: .*out of ink/));
});

it('a port in use is named', async () => {
  const { executor } = await open();
  const port = Number(new URL(executor.url).port);
  await expect(leases({ environment, port })).rejects.toThrow(/`port` is \d+\. Another program uses it/);
});

it('without workers a run says so and fails its rollouts in time', async () => {
  const opened = await open({ waitForWorkersMs: 600 });
  const { groups } = await run(opened, { scenarios: scenarios(1), rolloutsPerGroup: 1 });
  expect(groups[0]?.rollouts[0]).toMatchObject({ status: 'failed', failure: { code: 'no_workers' } });
  expect(opened.events).toEqual(['none']);
});

it('what cannot run on workers is named', async () => {
  const opened = await open({ host: '0.0.0.0', apiKey: 'key' });
  const failureOf = async (options: Parameters<typeof run>[1] = {}) => {
    const { groups } = await run(opened, { scenarios: scenarios(1), rolloutsPerGroup: 1, ...options });
    const [rollout] = groups[0]?.rollouts ?? [];
    return rollout?.status === 'failed' ? rollout.failure : undefined;
  };
  expect(await failureOf()).toMatchObject({
    code: 'service_not_reachable',
    message: expect.stringMatching(/serviceUrl/),
  });
  const { client, name } = opened.model;
  const replayed = new ModelHandle({ client, name, completions: client.chat.completions });
  expect(await failureOf({ model: replayed })).toMatchObject({ code: 'model_not_movable' });
});

it('impossible options are refused by name', async () => {
  const refused = (options: object) => expect(leases({ environment, port: 0, ...options })).rejects;
  await refused({ apiKey: 'two words' }).toThrow(/`apiKey`/);
  await refused({ leaseMs: 0 }).toThrow(/`leaseMs` is 0/);
  await refused({ maxLosses: 0.5 }).toThrow(/`maxLosses` is 0.5/);
  await refused({ serviceUrl: 'ftp://there' }).toThrow(/`serviceUrl` is "ftp:\/\/there"/);
  await refused({ environment: 'echoing.ts' }).toThrow(/`environment`/);
  await refused({ exportName: 'notAnEnvironment' }).toThrow(/"notAnEnvironment"/);
  await refused({ key: 'x' }).toThrow(/apiKey/);
});
