import { describe, expect, it } from 'vitest';
import { projections } from '../../../../src/engines/embedded/checkpoint/tensors.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { adapterShapes } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import { loadRuntime } from '../../../../src/engines/embedded/runtime.ts';
import type { Chunk } from '../../../../src/engines/embedded/sampler/cached-attention.ts';
import { Decoder } from '../../../../src/engines/embedded/sampler/decoder.ts';
import type { Draw } from '../../../../src/engines/embedded/sampler/draws.ts';
import { copyRow, type LogitRows } from '../../../../src/engines/embedded/sampling/distribution.ts';
import { randomModel } from '../../../../src/engines/embedded/self-test/random-model.ts';
import { usualOptions } from '../../../../src/engines/embedded/weights/architecture.ts';

const rotary = { positions: { theta: 10_000, scaling: null }, normEpsilon: 1e-6, previousTokens: 0 } as const;
const common = {
  ...rotary,
  ...usualOptions,
  mlp: 'gated-silu',
  vocabularySize: 1_003,
  contextLength: 512,
  layers: 2,
} as const;

/** The sizes of published models, whose products are longer than what a kernel adds up at once. */
const shapes = {
  'SmolLM2 135M': {
    ...common,
    ...{ width: 576, heads: 9, keyValueHeads: 3, headWidth: 64, mlpWidth: 1536, layers: 1 },
    ...{ queryKeyNorm: false, attentionBias: false, tiedEmbeddings: true },
    rank: 8,
  },
  'Qwen2.5 0.5B': {
    ...common,
    ...{ width: 896, heads: 14, keyValueHeads: 2, headWidth: 64, mlpWidth: 4864, layers: 1 },
    ...{ queryKeyNorm: false, attentionBias: true, tiedEmbeddings: true },
    rank: 40,
  },
  'a model whose heads share no keys': {
    ...common,
    ...{ width: 320, heads: 5, keyValueHeads: 5, headWidth: 64, mlpWidth: 1000, layers: 1 },
    ...{ queryKeyNorm: true, attentionBias: false, tiedEmbeddings: false },
    rank: 64,
  },
  'Gemma 3 270M': {
    ...common,
    ...{ width: 640, heads: 4, keyValueHeads: 1, headWidth: 256, mlpWidth: 2048 },
    ...{ queryKeyNorm: true, attentionBias: false, tiedEmbeddings: true },
    mlp: 'gated-gelu',
    normOffset: 1,
    ...{ outputNorms: true, embeddingScale: 25.25 },
    // Shorter than published, so that sequences are longer.
    local: { layers: [true, false], window: 24, positions: { theta: 100, scaling: null } },
    rank: 16,
  },
  'a model with one matrix for gate and up, and factors': {
    ...common,
    ...{ width: 768, heads: 12, keyValueHeads: 4, headWidth: 64, mlpWidth: 3072, layers: 1 },
    ...{ queryKeyNorm: false, attentionBias: false, tiedEmbeddings: true },
    ...{ embeddingScale: 12, attentionScale: 1 / 64, residualScale: 0.22, logitScale: 1 / 8 },
    joinedGate: true,
    rank: 16,
  },
  'a model with a convolution': {
    ...common,
    ...{ width: 640, heads: 10, keyValueHeads: 5, headWidth: 64, mlpWidth: 1000 },
    ...{ queryKeyNorm: true, attentionBias: false, tiedEmbeddings: true },
    convolutions: { layers: [true, false], taps: 3 },
    rank: 16,
  },
} as const;

type Case = {
  shape: string;
  sizes: (typeof shapes)[keyof typeof shapes];
  name: 'onnxruntime-node' | 'onnxruntime-web';
  attention: 'padded' | 'flat';
};

const cases = Object.entries(shapes).flatMap(([shape, sizes]) => {
  const native = { shape, sizes, name: 'onnxruntime-node', attention: 'padded' } as const;
  // Slower, so that the largest is left out.
  const web = { ...native, name: 'onnxruntime-web' } as const;
  const flat = { ...native, attention: 'flat' } as const;
  return [
    native,
    ...(sizes.mlpWidth > 3000 ? [] : [web]),
    ...(sizes.mlpWidth === 1536 ? [flat] : []),
  ] satisfies Case[];
});

/** Each kind of layer has a short test, and each runtime. */
const isLong = ({ name, sizes: { heads, mlpWidth } }: Case) =>
  mlpWidth > 3000 || (name === 'onnxruntime-web') !== (heads === 5);

describe.each([false, true])('a checkpoint on the CPU', (long) => {
  it.each(cases.filter((one) => isLong(one) === long))(
    'gives the same bits in any batch, chunk and width, and on one thread or two: $shape by $name, with $attention attention',
    long ? { tags: ['long'] } : {},
    async ({ name, attention, sizes: { rank, ...architecture } }) => {
      const random = new Random(7);
      const lora = { rank, alpha: 2 * rank, targets: projections };
      const model = randomModel('random', architecture, lora);
      const size = adapterShapes(architecture, lora).reduce((sum, shape) => sum + shape.size, 0);
      const vector = Float32Array.from({ length: size }, () => 0.02 * random.normal());
      const sequences = [1, 31, 33, 70].map((length) =>
        Array.from({ length }, () => Math.floor(random.uniform() * architecture.vocabularySize)),
      );
      const decoders = [];
      for (const threads of name === 'onnxruntime-node' ? [2, 1] : [1])
        decoders.push(
          await Decoder.create(await loadRuntime(name, threads), model, { lora, vector }, attention),
        );
      const [first] = decoders as [Decoder];
      const alone: LogitRows[][] = [];
      for (const tokens of sequences) {
        first.cache.reserve(1, tokens.length, 0);
        const rows: LogitRows[] = [];
        for (let at = 0; at < tokens.length; at++)
          rows.push(copyRow(await first.run(0, [{ tokens, start: at, end: at + 1 }]), 0));
        alone.push(rows);
        first.cache.clear();
      }
      for (const decoder of decoders)
        for (const most of [3, 40, 400]) {
          const done = sequences.map(() => 0);
          const isDone = () => sequences.every(({ length }, row) => done[row] === length);
          for (let run = 0; run < 12 && !isDone(); run++) {
            const chunks = sequences.map((tokens, row) => {
              const start = done[row] as number;
              const length = Math.ceil(random.uniform() * most);
              return { tokens, start, end: Math.min(tokens.length, start + length) };
            });
            const longest = Math.max(...chunks.map(({ end }) => end));
            decoder.cache.reserve(
              sequences.length,
              longest + Math.floor(random.uniform() * 100),
              sequences.length,
            );
            const rows = await decoder.run(0, chunks);
            let at = 0;
            for (const [row, { start, end }] of chunks.entries()) {
              done[row] = end;
              if (end > start) expect(copyRow(rows, at++)).toEqual(alone[row]?.[end - 1]);
            }
          }
          decoder.cache.clear();
        }

      if (attention === 'flat') return;
      // Tokens that the graph draws, alone and beside others.
      const legal = Int32Array.from({ length: architecture.vocabularySize }, (_, token) => token);
      const draws = sequences.map((_, row) => ({ legal, temperature: row / 2, uniform: 0.6, top: 3 }));
      const ends = sequences.map((tokens) => ({ tokens, start: 0, end: tokens.length }));
      first.cache.reserve(sequences.length, 96, 0);
      const { outcomes } = await first.step(0, ends, draws);
      for (const [row, outcome] of outcomes.entries()) {
        const [chunk, draw] = [ends[row] as Chunk, draws[row] as Draw];
        expect((await first.step(row, [chunk], [draw])).outcomes).toEqual([outcome]);
      }
    },
  );
});
