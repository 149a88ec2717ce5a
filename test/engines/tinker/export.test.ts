import { expect, test } from 'vitest';
import type { Engine, Weights } from '../../../src/engines/engine.ts';
import { decodeTar } from '../../../src/util/tar.ts';
import { sharedFolder } from '../../support/files.ts';
import { serverOf, tinkerEngines, untrained } from './support.ts';

const { open, trainOnce } = tinkerEngines(sharedFolder());

async function filesOf(engine: Engine, weights: Weights): Promise<Record<string, Buffer>> {
  const { extension, bytes, chunks } = await engine.exportWeights(weights);
  expect(extension).toBe('.tar');
  const pieces: Uint8Array[] = [];
  for await (const chunk of chunks) pieces.push(chunk);
  const archive = Buffer.concat(pieces);
  expect(archive).toHaveLength(bytes);
  const files: Record<string, Buffer> = {};
  for await (const { path, content } of decodeTar(
    (async function* () {
      yield archive;
    })(),
  )) {
    const parts: Uint8Array[] = [];
    for await (const part of content) parts.push(part);
    files[path] = Buffer.concat(parts);
  }
  return files;
}

test("a checkpoint's adapter is downloaded as PEFT's two files, and none stays on the server", async () => {
  const server = await serverOf();
  const engine = await open(server);
  const first = await trainOnce(engine, untrained, 'first');
  const second = await trainOnce(engine, first.weights, 'second');
  const files = await filesOf(engine, first.weights);
  expect(Object.keys(files)).toEqual(['adapter/adapter_config.json', 'adapter/adapter_model.safetensors']);
  const config = JSON.parse(String(files['adapter/adapter_config.json']));
  expect(config).toMatchObject({ r: 4, base_model_name_or_path: expect.not.stringContaining('secret') });
  const bias = server.checkpoints.get(first.path)?.bias as Float64Array;
  expect(files['adapter/adapter_model.safetensors']).toEqual(Buffer.from(bias.slice().buffer));
  expect((await filesOf(engine, second.weights))['adapter/adapter_model.safetensors']).not.toEqual(
    files['adapter/adapter_model.safetensors'],
  );
  expect(server.files.size).toBe(0);
});

test.each(['save_weights_for_sampler', '/archive'])(
  'an export that is aborted during %s leaves no file on the server',
  async (path) => {
    const server = await serverOf();
    const engine = await open(server);
    const { weights } = await trainOnce(engine, untrained, 'first');
    const stop = new AbortController();
    const served = Promise.withResolvers<void>();
    server.hold = (received) => {
      if (!received.path.endsWith(path)) return undefined;
      stop.abort('enough');
      return served.promise;
    };
    await expect(engine.exportWeights(weights, { signal: stop.signal })).rejects.toBe('enough');
    served.resolve();
    const removal = expect.stringMatching(/^DELETE .*sampler_weights\/martingale-/);
    await expect.poll(() => server.received.map(({ path }) => path)).toContainEqual(removal);
    expect(server.files.size).toBe(0);
    // Another one is not disturbed.
    expect(Object.keys(await filesOf(engine, weights))).toHaveLength(2);
  },
);

test('an archive without an adapter is refused by what it has, and removed', async () => {
  const server = await serverOf();
  server.archiveOf = () => ({ 'model.safetensors': new Uint8Array(8), 'config.json': Buffer.from('{}') });
  const engine = await open(server);
  const { weights } = await trainOnce(engine, untrained, 'first');
  await expect(engine.exportWeights(weights)).rejects.toMatchObject({
    code: 'engine_unsupported',
    message: expect.stringContaining('it has model.safetensors, config.json'),
  });
  expect(server.files.size).toBe(0);
});

test('a server with room for one adapter only is refused at the start', async () => {
  const server = await serverOf();
  let created = 0;
  server.fault = ({ path }, when) =>
    path.endsWith('create_model') && when === 'before' && ++created === 2 ? 400 : undefined;
  await expect(open(server)).rejects.toMatchObject({
    code: 'engine_unsupported',
    message: expect.stringContaining('holds one adapter at a time'),
  });
});
