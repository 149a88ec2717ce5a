import { expect, onTestFinished, test } from 'vitest';
import { type EngineFlags, openEngine } from '../../src/cli/open-engine.ts';
import { generateCheckpoint } from '../engines/embedded/checkpoint/generated.ts';
import { TinkerServer } from '../engines/tinker/tinker-server.ts';
import { temporaryFolder } from '../support/files.ts';

const flags = (given: Partial<EngineFlags>): EngineFlags => ({ engine: 'tinker', checkpoint: [], ...given });

test('--engine tinker serves the model of a training server beside the tiny models', async () => {
  const server = await TinkerServer.start({ vocabularySize: 709 });
  const folder = await generateCheckpoint(await temporaryFolder(), 'qwen3');
  const given = { tinkerUrl: server.url, checkpoint: [folder], threads: 1, loraRank: 4 };
  const engine = await openEngine(flags(given));
  onTestFinished(() => engine.close());
  expect(engine.baseModels.map(({ id }) => id)).toEqual([
    'martingale-tiny',
    'martingale-small',
    'qwen3-generated',
  ]);
});

const checkpoint = ['./Qwen3-4B'];
const tinkerUrl = 'http://127.0.0.1:8001';

test.each<[string, Partial<EngineFlags>, RegExp]>([
  ['no address', { checkpoint }, /--tinker-url is missing/],
  ['no checkpoint', { tinkerUrl }, /--checkpoint must be given once/],
  ['a checkpoint of the hub', { tinkerUrl, checkpoint: ['hf:a/b'] }, /--checkpoint must be given once/],
  ['plain http beyond this machine', { tinkerUrl: 'http://gpu-box:8001', checkpoint }, /must be https/],
  [
    'the alpha of local adapters',
    { tinkerUrl, checkpoint, loraAlpha: 8 },
    /--lora-alpha is set on the training/,
  ],
  ['what local training changes', { tinkerUrl, checkpoint, train: 'all' }, /--train is set on the training/],
  [
    'its address without the engine',
    { engine: 'embedded', tinkerUrl },
    /--tinker-url is for --engine tinker/,
  ],
])('%s is refused by name', async (_name, given, message) => {
  await expect(openEngine(flags(given))).rejects.toMatchObject({
    code: 'invalid_run_option',
    message: expect.stringMatching(message),
  });
});
