import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { gemma3 as gemma3Family } from '../../../../../src/engines/embedded/checkpoint/families/gemma3.ts';
import { graniteHybridFile } from '../../../../../src/engines/embedded/checkpoint/families/granite.ts';
import { smollm3 } from '../../../../../src/engines/embedded/checkpoint/families/smollm3.ts';
import { GgufFields } from '../../../../../src/engines/embedded/checkpoint/gguf/fields.ts';
import type { GgufValue } from '../../../../../src/engines/embedded/checkpoint/gguf/header.ts';
import { GgufFile } from '../../../../../src/engines/embedded/checkpoint/gguf-file.ts';
import { writeMerged } from '../../../../../src/engines/embedded/checkpoint/merge.ts';
import {
  hashCheckpoint,
  hashWeights,
  readCheckpoint,
} from '../../../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { inspectCheckpoint } from '../../../../../src/engines/embedded/open-checkpoint.ts';
import { usualOptions } from '../../../../../src/engines/embedded/weights/architecture.ts';
import { readLanguage } from '../../../../../src/language/chat/read-language.ts';
import { temporaryFolder } from '../../../../support/files.ts';

const fixture = (name: string) => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url));
const languages = fileURLToPath(new URL('../../../../language/fixtures', import.meta.url));
const reference: Record<string, Record<string, string>> = JSON.parse(
  await readFile(fixture('reference.json'), 'utf8'),
);
const families = ['llama3', 'qwen2', 'qwen3', 'smollm2', 'gemma3', 'lfm2', 'granite', 'mistral'] as const;

/** The options of the fixture. */
const gemma3 = {
  mlp: 'gated-gelu',
  normOffset: 1,
  outputNorms: true,
  embeddingScale: 5.65625,
  attentionScale: 1 / Math.sqrt(8),
  local: { layers: [true, false], window: 16, positions: { theta: 10_000, scaling: null } },
} as const;

/** As the reference has them: see `fixtures/make.py`. */
function sha256(values: Float32Array): string {
  const bits = new Uint32Array(values.slice().buffer);
  for (const [index, value] of values.entries()) if (Number.isNaN(value)) bits[index] = 0x7fc00000;
  return createHash('sha256').update(bits).digest('hex');
}

it('numbers of every format are those that the gguf package of Python reads, whatever the pieces', async () => {
  await using file = await GgufFile.open(fixture('formats.gguf'));
  expect([...file.tensors.keys()]).toEqual(Object.keys(reference.formats ?? {}));
  for (const most of [1, 512, 1 << 20])
    for (const [format, tensor] of file.tensors) {
      expect(tensor.dimensions).toEqual([3, 512]);
      const found: number[] = [];
      for await (const values of file.values(tensor, most)) found.push(...values);
      expect([format, sha256(Float32Array.from(found))]).toEqual([format, reference.formats?.[format]]);
    }
});

it('a Gemma 3 of Ollama has other names for its bases, a list of layers, and a cap that counts for nothing', () => {
  const read = (more: [string, GgufValue][]) => {
    const metadata = new Map<string, GgufValue>([
      ['gemma3.block_count', 3],
      ...more.map(([name, value]): [string, GgufValue] => [`gemma3.${name}`, value]),
    ]);
    const fields = new GgufFields('x.gguf', { metadata, tensors: new Map() });
    return gemma3Family.gguf.config(fields, { width: 32, heads: 4, headWidth: 16, factors: null });
  };
  const ollama: [string, GgufValue][] = [
    ['attention.sliding_window', 512],
    ['attention.sliding_window_pattern', [false, true, true]],
    ['final_logit_softcapping', 30],
    ['rope.global.freq_base', 2000],
    ['rope.local.freq_base', 100],
  ];
  expect(read(ollama)).toMatchObject({
    layer_types: ['full_attention', 'sliding_attention', 'sliding_attention'],
    ...{ sliding_window: 512, rope_theta: 2000, rope_local_base_freq: 100 },
    ...{ final_logit_softcapping: null, query_pre_attn_scalar: 16 },
  });
  // Gemma 3 27B.
  expect(read([['block_count', 62]])).toMatchObject({
    query_pre_attn_scalar: 8,
    rope_theta: 1_000_000,
    layer_types: Array(62).fill('full_attention'),
  });
});

it('a Granite without attention in some layers, or without positions, is refused by the field', () => {
  const read = (more: [string, GgufValue][]) => {
    const metadata = new Map(more.map(([name, value]) => [`granitehybrid.${name}`, value] as const));
    const fields = new GgufFields('x.gguf', { metadata, tensors: new Map() });
    const sizes = { width: 32, heads: 4, headWidth: 16, factors: null };
    return graniteHybridFile.gguf.config(fields, sizes);
  };
  // Factors that a file does not have, or has as 0, are those of llama.cpp.
  expect(read([['residual_scale', 0]])).toMatchObject({
    ...{ embedding_multiplier: 1, attention_multiplier: 0.25, residual_multiplier: 1, logits_scaling: 1 },
  });
  expect(() => read([['attention.head_count_kv', [0, 4, 4]]])).toThrow(
    /granitehybrid\.attention\.head_count_kv is a list of 3\. martingale runs Granite 4\.0 without experts and state space/,
  );
  expect(() => read([['attention.head_count_kv', [2, 4]]])).toThrow(/all have the same number of heads/);
  expect(() => read([['rope.scaling.finetuned', false]])).toThrow(
    /granitehybrid\.rope\.scaling\.finetuned is false\. martingale runs Granite with rotary positions/,
  );
});

it('a SmolLM3 has the layers without rotations that llama.cpp knows', () => {
  const fields = new GgufFields('x.gguf', {
    metadata: new Map<string, GgufValue>([['smollm3.rope.freq_base', 5e6]]),
    tensors: new Map(),
  });
  const config = smollm3.gguf.config(fields, { width: 32, heads: 4, headWidth: 16, factors: null });
  expect(config).toMatchObject({ rope_theta: 5e6, rope_scaling: null });
  // The default of transformers is each fourth.
  expect(config).not.toHaveProperty('no_rope_layers');
});

it('the words of Granite 3 have three names', async () => {
  const bytes = await readFile(fixture('smollm2.gguf'));
  const texts: [string, number[]][] = JSON.parse(
    await readFile(join(languages, 'smollm2.tokens.json'), 'utf8'),
  );
  const path = join(await temporaryFolder(), 'x.gguf');
  const at = bytes.indexOf('smollm', bytes.indexOf('tokenizer.ggml.pre'));
  await writeFile(path, bytes.fill('refact', at, at + 6));
  const { language } = await inspectCheckpoint({ folder: path });
  for (const [text, ids] of texts) expect(language.tokenizer.encode(text)).toEqual(ids);
});

describe.each(families)('a GGUF file of a %s model', (family) => {
  const path = fixture(`${family}.gguf`);

  it('has the weights that its numbers say, under their names in Hugging Face form', async () => {
    const { weights, architecture } = await readCheckpoint(path);
    const found = Array.from(weights, ([name, values]) => [name, sha256(values)]);
    expect(Object.fromEntries(found)).toEqual(reference[family]);
    expect(architecture).toEqual({
      ...{
        vocabularySize: 736,
        width: 32,
        layers: 2,
        heads: 4,
        keyValueHeads: 2,
        headWidth: family === 'mistral' ? 16 : 8,
        mlpWidth: 64,
      },
      ...{ contextLength: 512, previousTokens: 0, normEpsilon: Math.fround(1e-6) },
      ...{ mlp: 'gated-silu', ...usualOptions },
      ...(family === 'gemma3' ? gemma3 : {}),
      ...(family === 'lfm2' ? { convolutions: { layers: [true, false], taps: 3 }, tensorNames: 'lfm2' } : {}),
      ...(family === 'granite'
        ? { embeddingScale: 12, attentionScale: 0.125, residualScale: 0.25, logitScale: 0.25 }
        : {}),
      queryKeyNorm: family === 'qwen3' || family === 'gemma3' || family === 'lfm2',
      attentionBias: family === 'qwen2',
      tiedEmbeddings: family !== 'llama3' && family !== 'mistral',
      positions: {
        llama3: {
          theta: 500_000,
          scaling: { factor: 32, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalContextLength: 8192 },
        },
        smollm2: { theta: 10_000, scaling: null },
        qwen2: { theta: 1_000_000, scaling: null },
        qwen3: { theta: 1_000_000, scaling: null },
        gemma3: { theta: 1_000_000, scaling: 8 },
        lfm2: { theta: 1_000_000, scaling: null },
        granite: { theta: 10_000_000, scaling: null },
        mistral: { theta: 1_000_000, scaling: null },
      }[family],
    });
  });

  it('has the tokens, the template and the ends of replies of the folder that it was made of', async () => {
    const folder = join(languages, family);
    const [own, other] = await Promise.all([inspectCheckpoint({ folder: path }), readLanguage(folder)]);
    expect(own.id).toBe(family);
    // In no order. A file does not say that only one of the end tokens of SmolLM2 and LFM2 counts.
    const otherEnds =
      family === 'smollm2' || family === 'lfm2'
        ? [other.tokenizer.special.get('<|endoftext|>')]
        : other.format.otherEndTokens;
    expect(new Set(own.language.format.otherEndTokens)).toEqual(new Set(otherEnds));
    expect({ ...own.language.format, otherEndTokens: [] }).toEqual({ ...other.format, otherEndTokens: [] });
    expect(own.language.tokenizer.vocabularySize).toBe(other.tokenizer.vocabularySize);
    expect(own.language.tokenizer.special).toEqual(other.tokenizer.special);
    const tokens = { qwen3: 'qwen2', lfm2: 'llama3' }[family as string] ?? family;
    const texts: [string, number[]][] = JSON.parse(
      await readFile(join(languages, `${tokens}.tokens.json`), 'utf8'),
    );
    for (const [text, ids] of texts) expect([text, own.language.tokenizer.encode(text)]).toEqual([text, ids]);
  });

  it('becomes a folder in Hugging Face form when it is exported', async () => {
    const { architecture } = await readCheckpoint(path);
    const folder = join(await temporaryFolder(), 'merged');
    await writeMerged(path, { rank: 1, alpha: 1, targets: ['q_proj'], tensors: new Map() }, folder);
    const merged = await readCheckpoint(folder);
    expect(merged.architecture).toEqual(architecture);
    const before = await readCheckpoint(path);
    // Of quantized numbers, those of float16.
    for (const [name, values] of merged.weights)
      for (const [index, value] of values.entries())
        expect(Math.abs(value - (before.weights.get(name)?.[index] as number))).toBeLessThan(2 ** -11);
    const [own, exported] = await Promise.all([readLanguage(folder), inspectCheckpoint({ folder: path })]);
    expect(own.format).toEqual(exported.language.format);
    expect(own.tokenizer.encode('Hello, 1234 worlds!')).toEqual(
      exported.language.tokenizer.encode('Hello, 1234 worlds!'),
    );
  });

  it('has the same hash whether its weights are in memory or not', async () => {
    expect(await hashCheckpoint(path)).toBe(hashWeights((await readCheckpoint(path)).weights));
  });
});
