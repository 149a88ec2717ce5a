import { expect, onTestFinished, test } from 'vitest';
import { createClient, type RequestError } from '../../src/client/index.ts';
import { startServer } from '../support/http-server.ts';
import { uuid } from './server.ts';

/** A service that can stop and start again on the same port. */
async function restartable() {
  const begin = (port = 0) =>
    startServer(
      (_, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ id: uuid(1) }));
      },
      { port },
    );
  let server = await begin();
  const leave = () => server.close();
  onTestFinished(leave);
  return {
    url: server.url,
    leave,
    comeBack: async () => {
      server = await begin(server.port);
    },
  };
}

const warnings = () => {
  const heard: string[] = [];
  const hear = (warning: Error) => {
    if ('code' in warning && warning.code === 'martingale_service_away') heard.push(warning.message);
  };
  process.on('warning', hear);
  onTestFinished(() => void process.off('warning', hear));
  return heard;
};

test('calls to an unavailable service are retried beyond `retries`, with one warning', async () => {
  const heard = warnings();
  const service = await restartable();
  const client = createClient({
    baseUrl: service.url,
    apiKey: 'key',
    retries: 1,
    backoffMs: 4,
    awayMs: 60_000,
  });
  onTestFinished(() => client.close());
  await client.trainingJobs.get('a');
  await service.leave();
  let failures = 0;
  const onRetry = () => {
    if (++failures === 8) void service.comeBack();
  };
  const both = await Promise.all(['b', 'c'].map((id) => client.trainingJobs.get(id, { onRetry })));
  expect(both).toHaveLength(2);
  expect(failures).toBeGreaterThanOrEqual(8);
  expect(heard).toHaveLength(1);
  expect(heard[0]).toContain(`The service at ${service.url} is unavailable. Retrying for 60 s (awayMs).`);
});

test('retrying ends when `awayMs` is over', async () => {
  const service = await restartable();
  const client = createClient({ baseUrl: service.url, apiKey: 'key', retries: 1, backoffMs: 1, awayMs: 100 });
  onTestFinished(() => client.close());
  await client.trainingJobs.get('a');
  await service.leave();
  const began = performance.now();
  await expect(client.trainingJobs.get('b')).rejects.toMatchObject({ code: 'connection_failed' });
  expect(performance.now() - began).toBeGreaterThanOrEqual(100);
  await service.comeBack();
});

test('a service that never answered is retried `retries` times only', async () => {
  const service = await restartable();
  await service.leave();
  const client = createClient({
    baseUrl: service.url,
    apiKey: 'key',
    retries: 2,
    backoffMs: 1,
    awayMs: 60_000,
  });
  onTestFinished(() => client.close());
  let failures = 0;
  const onRetry = () => void failures++;
  const failed: RequestError = await client.trainingJobs.get('b', { onRetry }).then(
    () => Promise.reject(new Error('there is nobody')),
    (error) => error,
  );
  expect([failures, failed.code]).toEqual([2, 'connection_failed']);
  await service.comeBack();
});

test('a service that has never answered is named at the first failure', async () => {
  const heard = warnings();
  const service = await restartable();
  await service.leave();
  const client = createClient({ baseUrl: service.url, apiKey: 'key', retries: 1, backoffMs: 1 });
  onTestFinished(() => client.close());
  await expect(client.trainingJobs.get('b')).rejects.toMatchObject({ code: 'connection_failed' });
  await expect.poll(() => heard).toHaveLength(1);
  expect(heard[0]).toContain(
    `The service at ${service.url} is unavailable. Retrying up to 1 times (retries).`,
  );
  await service.comeBack();
});

test('with no retries, an unavailable service is not waited for', async () => {
  const service = await restartable();
  const client = createClient({ baseUrl: service.url, apiKey: 'key', retries: 0 });
  onTestFinished(() => client.close());
  await client.trainingJobs.get('a');
  await service.leave();
  const onRetry = () => expect.fail('it was repeated');
  await expect(client.trainingJobs.get('b', { onRetry })).rejects.toMatchObject({
    code: 'connection_failed',
  });
  await service.comeBack();
});
