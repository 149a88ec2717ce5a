import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createEmbeddedEngine } from '../../../../src/engines/embedded/index.ts';
import { temporaryFolder } from '../../../support/files.ts';
import { generateCheckpoint } from './generated.ts';
import { commit, hubServer } from './hub-server.ts';

test('a checkpoint of the hub is a base model, also after an aborted fetch and when the hub is away', async () => {
  const folder = await generateCheckpoint(await temporaryFolder(), 'qwen2');
  const files = new Map<string, Buffer>();
  for (const file of await readdir(folder)) files.set(file, await readFile(join(folder, file)));
  const server = await hubServer(files, { name: 'acme/Tiny-Qwen2', token: 'hf_secret' });
  vi.stubEnv('HF_ENDPOINT', server.url);
  vi.stubEnv('HF_TOKEN', 'hf_secret');
  vi.stubEnv('XDG_CACHE_HOME', await temporaryFolder());
  onTestFinished(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
  });
  const fetched: number[] = [];
  server.cuts.push(-100);
  const stop = new AbortController();
  const onFetch = () => stop.abort('enough');
  const checkpoints = [{ folder: 'hf:acme/Tiny-Qwen2' }];
  await expect(createEmbeddedEngine({ checkpoints, onFetch, signal: stop.signal })).rejects.toBe('enough');
  const open = async () => {
    const engine = await createEmbeddedEngine({
      threads: 1,
      checkpoints,
      onFetch: ({ bytes }) => fetched.push(bytes),
    });
    onTestFinished(() => engine.close());
    return engine.baseModels.map(({ id }) => id);
  };

  expect(await open()).toContain('Tiny-Qwen2');
  expect(fetched.length).toBeGreaterThan(0);
  expect(server.sent[1]).toMatch(/ 100-/);

  await server.close();
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  expect(await open()).toContain('Tiny-Qwen2');
  expect(warn).toHaveBeenCalledWith(
    expect.stringContaining(`using commit ${commit}`),
    expect.objectContaining({ code: 'martingale_hub_unreachable' }),
  );
});
