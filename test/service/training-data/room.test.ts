import { readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import type { ServiceLimits } from '../../../src/service/index.ts';
import { temporaryFolder } from '../../support/files.ts';
import { startServer } from '../../support/http-server.ts';
import { door } from '../../support/scripted-engine.ts';
import { open } from '../opened.ts';

const example = (reply: string) =>
  `${JSON.stringify({
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: reply },
    ],
  })}\n`;

/** A service, and a host that sends half of its data, and the rest once its gate is opened. */
async function withSlowHost(data: string, limits: Partial<ServiceLimits>, declare = true) {
  const held = door();
  const server = await startServer(async (_, response) => {
    if (declare) response.setHeader('content-length', data.length);
    response.write(data.slice(0, data.length / 2));
    await held.wait();
    response.end(data.slice(data.length / 2));
  });
  onTestFinished(server.close);
  const host = server.url;
  const folder = await temporaryFolder();
  const running = await open({ limits, trainingData: { hosts: [host], folders: [folder] } });
  running.service.queue.wake = () => {};
  const model = await running.createModel();
  const train = (url: string, config?: object) =>
    running.call('POST', '/v1/preview/sft-training-jobs', {
      ...{ model_id: model.id, training_data_url: url, config },
    });
  const path = join(folder, 'train.jsonl');
  await writeFile(path, example('a'.repeat(65_000)));
  return { ...running, held, train, folder, remote: `${host}/data`, file: pathToFileURL(path).href };
}

/** Uses most of the service's limit of 100,000 bytes. */
const large = example('b'.repeat(80_000));

test.each([true, false])(
  'fetched data counts toward the limit of bytes as it arrives: declared %s',
  async (declare) => {
    const { held, train, remote, file, service, dataFolder } = await withSlowHost(large, {}, declare);
    const first = train(remote);
    await held.reached;
    const incoming = () => readdirSync(join(dataFolder, 'incoming'));
    const needed = declare ? large.length : large.length / 2;
    while (service.admission.bodyBytes.taken < needed) await new Promise((resolve) => setImmediate(resolve));
    const second = await train(file);
    expect(second.status).toBe(429);
    expect(second.body.detail).toContain('limits.bodyBytes');
    expect(Number(second.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(incoming()).toHaveLength(1);
    held.open();
    expect((await first).status).toBe(200);
    expect(incoming()).toEqual([]);
    expect(service.admission.bodyBytes.taken).toBe(0);
    expect((await train(file)).status).toBe(200);
  },
);

test('concurrent fetches are limited; uploads need no slot', async () => {
  const { held, train, remote, file, call } = await withSlowHost(example('c'), { dataFetches: 1 });
  const first = train(remote);
  await held.reached;
  const second = await train(file);
  expect(second.status).toBe(429);
  expect(second.body.detail).toContain('limits.dataFetches');
  const upload = await call('POST', '/v1/preview/uploads', example('d'));
  expect((await train(upload.body.url)).status).toBe(200);
  held.open();
  expect((await first).status).toBe(200);
  expect((await train(file)).status).toBe(200);
});

test('data of a job that is refused for another field is not stored', async () => {
  const { train, file, dataFolder } = await withSlowHost(example('e'), {});
  const refused = await train(file, { batch_size: 1, learning_rate: [0.1, 0.2] });
  expect(refused).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body', 'config', 'learning_rate'] }] },
  });
  expect(readdirSync(join(dataFolder, 'uploads'))).toEqual([]);
  expect(readdirSync(join(dataFolder, 'incoming'))).toEqual([]);
  expect((await train(file, { batch_size: 1, learning_rate: [0.1] })).status).toBe(200);
  expect(readdirSync(join(dataFolder, 'uploads'))).toHaveLength(1);
});

test('data of a job that is refused for its metadata is not read', async () => {
  const { train, folder, service } = await withSlowHost(example('f'), {});
  await writeFile(join(folder, 'metadata.json'), '{"num_trajectories":1}');
  const taken: number[] = [];
  const admit = service.admission.body.bind(service.admission);
  service.admission.body = (tenant) => {
    const held = admit(tenant);
    return {
      ...held,
      bytes: (total) => {
        taken.push(total);
        held.bytes(total);
      },
    };
  };
  const url = pathToFileURL(folder).href;
  const refused = await train(url, { batch_size: 1, learning_rate: [0.1, 0.2] });
  expect(refused.body.detail[0].loc).toEqual(['body', 'config', 'learning_rate']);
  expect(Math.max(...taken)).toBeLessThan(1000);
  expect((await train(url)).status).toBe(200);
  expect(Math.max(...taken)).toBeGreaterThan(60_000);
});
