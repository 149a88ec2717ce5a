import { cp, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ollamaFile } from '../../../../src/engines/embedded/checkpoint/ollama.ts';
import { inspectCheckpoint } from '../../../../src/engines/embedded/open-checkpoint.ts';
import { temporaryFolder } from '../../../support/files.ts';

const gguf = fileURLToPath(new URL('gguf/fixtures/qwen3.gguf', import.meta.url));
const digest = 'ab'.repeat(32);
let models: string;
let blob: string;

/** As Ollama 0.12 writes a model. */
async function addModel(path: string, layers: object[] = [], sha256 = digest): Promise<void> {
  const file = join(models, 'manifests', path);
  await mkdir(dirname(file), { recursive: true });
  const model = { mediaType: 'application/vnd.ollama.image.model', digest: `sha256:${sha256}`, size: 1 };
  const manifest = {
    schemaVersion: 2,
    mediaType: 'application/vnd.docker.distribution.manifest.v2+json',
    config: { mediaType: 'application/vnd.docker.container.image.v1+json', digest: 'sha256:00', size: 1 },
    layers: [
      { mediaType: 'application/vnd.ollama.image.template', digest: 'sha256:11', size: 1 },
      model,
      ...layers,
    ],
  };
  await writeFile(file, JSON.stringify(manifest));
}

const saved = process.env.OLLAMA_MODELS;
beforeEach(async () => {
  models = await temporaryFolder();
  blob = join(models, 'blobs', `sha256-${digest}`);
  await mkdir(dirname(blob));
  await cp(gguf, blob);
  process.env.OLLAMA_MODELS = models;
});
afterEach(() => {
  if (saved === undefined) delete process.env.OLLAMA_MODELS;
  else process.env.OLLAMA_MODELS = saved;
});

describe('a model that Ollama has', () => {
  it.each([
    ['registry.ollama.ai/library/qwen3/latest', 'qwen3', 'qwen3'],
    ['registry.ollama.ai/library/qwen3/0.6b', 'qwen3:0.6b', 'qwen3-0.6b'],
    ['registry.ollama.ai/me/own/latest', 'me/own', 'own'],
    ['hf.co/me/Own-GGUF/Q8_0', 'hf.co/me/Own-GGUF:Q8_0', 'Own-GGUF-Q8_0'],
  ])('%s is ollama:%s', async (path, name, id) => {
    await addModel(path);
    const found = await inspectCheckpoint({ folder: `ollama:${name}` });
    expect(found).toMatchObject({ id, folder: blob, modelType: 'qwen3' });
  });

  it('is found where the first folder has it', async () => {
    await addModel('registry.ollama.ai/library/qwen3/latest');
    expect(await ollamaFile('qwen3', [await temporaryFolder(), models])).toBe(blob);
  });

  it('is refused in words if it is not there, or not whole', async () => {
    await expect(inspectCheckpoint({ folder: 'ollama:none' })).rejects.toMatchObject({
      code: 'checkpoint_not_found',
      message: expect.stringMatching(
        /^Ollama has no none:latest on this machine \(looked in .*"ollama pull none" fetches it\.$/,
      ),
    });
    await addModel('registry.ollama.ai/library/gone/latest', [], 'cd'.repeat(32));
    await expect(inspectCheckpoint({ folder: 'ollama:gone' })).rejects.toThrow(
      /sha256-(cd)+ does not exist, but .* names it\. Pull/,
    );
    await addModel('registry.ollama.ai/library/odd/latest', [], '../../../etc/passwd');
    await expect(inspectCheckpoint({ folder: 'ollama:odd' })).rejects.toThrow(
      'names no model. Pull it again',
    );
    const adapter = { mediaType: 'application/vnd.ollama.image.adapter', digest: 'sha256:22', size: 1 };
    await addModel('registry.ollama.ai/library/tuned/latest', [adapter]);
    await expect(inspectCheckpoint({ folder: 'ollama:tuned' })).rejects.toThrow(
      'models without adapters and projectors',
    );
  });

  it.each(['', '..', '../x', 'a/b/c/d', 'a:b:c', 'a:..', 'a b', '/etc/passwd'])(
    '%j is no name',
    async (name) => {
      await expect(inspectCheckpoint({ folder: `ollama:${name}` })).rejects.toThrow(
        /^`checkpoints` has ollama:.*\. Pass ollama:name or ollama:name:tag\.$/,
      );
    },
  );
});
