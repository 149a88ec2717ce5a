import { expect, it } from 'vitest';
import { attentionKind } from '../../../../src/engines/embedded/sampler/cached-attention.ts';
import { Decoder } from '../../../../src/engines/embedded/sampler/decoder.ts';
import { takePacked } from '../../../../src/engines/embedded/sampler/packed-stages.ts';
import { smallModel } from '../../../../src/engines/embedded/self-test/random-model.ts';
import { watched } from './support.ts';

it('packs a checkpoint once for all adapters, and frees the weights with the last user', async () => {
  const { runtime, counts } = watched();
  const model = smallModel();
  const sessions = model.architecture.layers + 1;
  const [first, second] = await Promise.all([
    Decoder.create(runtime, model, null),
    Decoder.create(runtime, model, null),
  ]);
  const { release } = takePacked(runtime, model, {
    attention: attentionKind(model.architecture),
    hasAdapters: false,
  });
  expect(counts).toEqual({ made: sessions, live: sessions });
  await first.close();
  await second.close();
  expect(counts.live).toBe(sessions);
  await release();
  expect(counts.live).toBe(0);
});

it('leaves nothing of weights that could not be packed, and packs them for the next user', async () => {
  const { runtime, counts } = watched(2);
  const model = smallModel();
  await expect(Decoder.create(runtime, model, null)).rejects.toThrow('no memory');
  expect(counts.live).toBe(0);
  const decoder = await Decoder.create(runtime, model, null);
  expect(counts.live).toBe(model.architecture.layers + 1);
  await decoder.close();
  expect(counts.live).toBe(0);
});
