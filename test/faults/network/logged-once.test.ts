import { expect, test, vi } from 'vitest';
import { instead, loseReply, mute, reply } from './faults.ts';
import type { ProxiedRequest } from './proxy.ts';
import { createsJob, faultAt, startTrainingWorld } from './training-world.ts';

const json = { 'content-type': 'application/json' };
const logs = ({ method, path }: ProxiedRequest) => method === 'POST' && path.endsWith('/log');

test('a resumed run does not log again what a service without keys has stored', async () => {
  await using world = await startTrainingWorld({ knowsKeys: false });
  faultAt(
    world.proxy,
    instead(reply('422 Unprocessable Entity', json, '{"detail":"not today"}')),
    createsJob,
  );
  await expect(world.train({ steps: 1 })).rejects.toThrow('not today');
  const asked = faultAt(world.proxy, loseReply, logs, Number.POSITIVE_INFINITY);
  expect(await world.train({ steps: 1, resume: true })).toMatchObject({ reason: 'finished', finalStep: 1 });
  expect(asked.met()).toBe(0);
});

test('a run that was stopped before the answer arrived does not send it twice either, and says so', async () => {
  await using world = await startTrainingWorld({ knowsKeys: false });
  const stop = new AbortController();
  const isLogging = Promise.withResolvers<void>();
  faultAt(world.proxy, mute, (request) => {
    if (logs(request)) isLogging.resolve();
    return logs(request);
  });
  const running = world.train({ steps: 1, signal: stop.signal });
  await isLogging.promise;
  // The time that a stopped run gives its last calls.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  stop.abort();
  await vi.advanceTimersByTimeAsync(10_001);
  vi.useRealTimers();
  expect(await running).toMatchObject({ reason: 'stopped' });
  const asked = faultAt(world.proxy, loseReply, logs, Number.POSITIVE_INFINITY);
  const warned = new Promise<string>((resolve) => process.once('warning', ({ message }) => resolve(message)));
  expect(await world.train({ steps: 1, resume: true })).toMatchObject({ reason: 'finished', finalStep: 1 });
  expect(await warned).toContain('may not have been logged');
  expect(asked.met()).toBe(0);
});

test('a resumed run sends again what such a service has refused', async () => {
  await using world = await startTrainingWorld({ knowsKeys: false });
  faultAt(world.proxy, instead(reply('422 Unprocessable Entity', json, '{"detail":"not today"}')), logs);
  await expect(world.train({ steps: 1 })).rejects.toThrow('not today');
  const asked = faultAt(world.proxy, loseReply, logs, Number.POSITIVE_INFINITY);
  expect(await world.train({ steps: 1, resume: true })).toMatchObject({ reason: 'finished', finalStep: 1 });
  expect(asked.met()).toBe(1);
});
