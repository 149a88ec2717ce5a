import { expect, it } from 'vitest';
import { builtInModels } from '../../../../src/engines/embedded/base-models.ts';
import { attentionKind } from '../../../../src/engines/embedded/sampler/cached-attention.ts';
import { architecture } from './support.ts';

it('is computed in WebAssembly for models whose slots are small, unless its kernels lack what they do', () => {
  for (const model of builtInModels) expect(attentionKind(model.architecture)).toBe('flat');
  const positions = { theta: 10_000, scaling: null };
  const smollm2 = { ...architecture, layers: 30, keyValueHeads: 3, headWidth: 64, contextLength: 8192 };
  for (const changed of [
    smollm2,
    { ...architecture, headWidth: 6 },
    { ...architecture, attentionScale: 0.5 },
    { ...architecture, local: { layers: [true, false], window: 8, positions } },
    { ...architecture, convolutions: { layers: [true, false], taps: 3 } },
  ])
    expect(attentionKind(changed)).toBe('padded');
});
