import { cp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readConfig } from '../../../../src/engines/embedded/checkpoint/config.ts';
import { smollm3 } from '../../../../src/engines/embedded/checkpoint/families/smollm3.ts';
import { readCheckpoint } from '../../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { usualOptions } from '../../../../src/engines/embedded/weights/architecture.ts';
import { temporaryFolder } from '../../../support/files.ts';
import { testSeed } from '../../../support/size.ts';
import {
  type FolderContents,
  type Format,
  numbersOf,
  safetensors,
  type Tensor,
  writeFolder,
} from './folder.ts';
import { fixtureFolder, fixtureNames } from './reference.ts';

/** The shapes of a model's tensors, as `transformers` 5.23 lists them for these families. */
function shapesOf(config: Config): Map<string, number[]> {
  const { hidden_size: width, intermediate_size: mlp, head_dim: head, vocab_size: vocabulary } = config;
  const queries = config.num_attention_heads * head;
  const keys = config.num_key_value_heads * head;
  const shapes = new Map([['model.embed_tokens.weight', [vocabulary, width]]]);
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    const add = (name: string, ...shape: number[]) => shapes.set(`model.layers.${layer}.${name}`, shape);
    add('self_attn.q_proj.weight', queries, width);
    add('self_attn.k_proj.weight', keys, width);
    add('self_attn.v_proj.weight', keys, width);
    add('self_attn.o_proj.weight', width, queries);
    if (config.model_type === 'qwen2') {
      add('self_attn.q_proj.bias', queries);
      add('self_attn.k_proj.bias', keys);
      add('self_attn.v_proj.bias', keys);
    }
    if (config.model_type === 'qwen3') {
      add('self_attn.q_norm.weight', head);
      add('self_attn.k_norm.weight', head);
    }
    add('mlp.gate_proj.weight', mlp, width);
    add('mlp.up_proj.weight', mlp, width);
    add('mlp.down_proj.weight', width, mlp);
    add('input_layernorm.weight', width);
    add('post_attention_layernorm.weight', width);
  }
  shapes.set('model.norm.weight', [width]);
  if (!config.tie_word_embeddings) shapes.set('lm_head.weight', [vocabulary, width]);
  return shapes;
}

const configs = fc
  .record({
    model_type: fc.constantFrom('llama', 'qwen2', 'qwen3'),
    hidden_size: fc.integer({ min: 1, max: 9 }),
    num_hidden_layers: fc.integer({ min: 1, max: 3 }),
    num_key_value_heads: fc.integer({ min: 1, max: 3 }),
    group: fc.integer({ min: 1, max: 3 }),
    half: fc.integer({ min: 1, max: 3 }),
    intermediate_size: fc.integer({ min: 1, max: 9 }),
    vocab_size: fc.integer({ min: 4, max: 20 }),
    max_position_embeddings: fc.integer({ min: 1, max: 100 }),
    rms_norm_eps: fc.constantFrom(1e-5, 1e-6),
    rope_theta: fc.constantFrom(10_000, 500_000),
    tie_word_embeddings: fc.boolean(),
    eos_token_id: fc.oneof(fc.constant(3), fc.constant([2, 3]), fc.constant(null)),
  })
  .map(({ group, half, ...config }) => ({
    ...config,
    num_attention_heads: config.num_key_value_heads * group,
    head_dim: 2 * half,
  }));

type Config = typeof configs extends fc.Arbitrary<infer Value> ? Value : never;

const contents: fc.Arbitrary<FolderContents & { config: Config }> = fc
  .tuple(configs, fc.constantFrom<Format>('F32', 'BF16', 'F16'), fc.integer({ min: 1, max: 4 }), fc.nat())
  .map(([config, format, shards, seed]) => {
    const random = new Random(seed);
    const tensors = new Map(
      Array.from(shapesOf(config), ([name, shape]): [string, Tensor] => {
        const elements = shape.reduce((product, size) => product * size, 1);
        const bytes = Uint8Array.from(
          { length: elements * (format === 'F32' ? 4 : 2) },
          () => random.uniform() * 256,
        );
        return [name, { shape, bytes }];
      }),
    );
    return { config, format, shards, tensors };
  });

describe('a checkpoint', () => {
  it.each(fixtureNames)('that transformers wrote is read: %s', async (name) => {
    const checkpoint = await readCheckpoint(fixtureFolder(name));
    const isQwen3 = name === 'qwen3';
    const isGemma3 = name === 'gemma3';
    const isLfm2 = name === 'lfm2';
    const isGranite = name === 'granite' || name === 'granite4';
    expect(checkpoint.architecture).toEqual({
      vocabularySize: 320,
      width: 32,
      layers: isGemma3 || isLfm2 ? 3 : 2,
      heads: 4,
      keyValueHeads: isGemma3 ? 1 : 2,
      headWidth: isQwen3 || isGemma3 || name === 'mistral' ? 16 : 8,
      // Of LFM2, two thirds of 84 as a multiple of 16.
      mlpWidth: { qwen2: 80, qwen3: 80, lfm2: 64 }[name as string] ?? 48,
      contextLength: 512,
      positions: {
        theta: { llama: 500, qwen3: 1_000_000, lfm2: 1_000_000, smollm3: 5000 }[name as string] ?? 10_000,
        scaling:
          name === 'llama'
            ? { factor: 8, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalContextLength: 64 }
            : isGemma3
              ? 4
              : null,
      },
      previousTokens: 0,
      mlp: isGemma3 ? 'gated-gelu' : 'gated-silu',
      normEpsilon: ['qwen2', 'qwen3', 'gemma3', 'smollm3'].includes(name) ? 1e-6 : 1e-5,
      ...usualOptions,
      ...(isGemma3
        ? {
            normOffset: 1,
            outputNorms: true,
            // The root of 32 in bfloat16.
            embeddingScale: 5.65625,
            attentionScale: 1 / Math.sqrt(24),
            local: { layers: [true, true, false], window: 4, positions: { theta: 100, scaling: null } },
          }
        : {}),
      ...(isLfm2 ? { convolutions: { layers: [true, false, true], taps: 3 }, tensorNames: 'lfm2' } : {}),
      ...(name === 'mistral'
        ? { local: { layers: [true, true], window: 5, positions: { theta: 10_000, scaling: null } } }
        : {}),
      ...(name === 'smollm3'
        ? {
            local: {
              layers: [false, true],
              window: 2 ** 27,
              positions: { theta: 1, scaling: Number.POSITIVE_INFINITY },
            },
          }
        : {}),
      ...(isGranite
        ? { embeddingScale: 3, attentionScale: 0.125, residualScale: 0.22, logitScale: 0.25 }
        : {}),
      ...(name === 'granite4' ? { joinedGate: true, tensorNames: 'granite-hybrid' } : {}),
      queryKeyNorm: isQwen3 || isGemma3 || isLfm2,
      attentionBias: name === 'qwen2',
      tiedEmbeddings: name !== 'llama' && name !== 'mistral' && name !== 'granite4',
    });
    expect(checkpoint).toMatchObject({
      family: { modelType: { gemma3: 'gemma3_text', granite4: 'granitemoehybrid' }[name as string] ?? name },
      endTokens: name === 'llama' || isGemma3 ? [313, 314] : name === 'qwen2' || isQwen3 ? [314, 313] : [314],
    });
    const parameters = [...checkpoint.weights.values()].reduce((sum, { length }) => sum + length, 0);
    // Counted by PyTorch.
    expect(parameters).toBe(
      {
        ...{ llama: 36_000, qwen2: 32_032, qwen3: 38_112, gemma3: 39_936, lfm2: 40_368 },
        ...{ mistral: 42_144, granite: 25_760, granite4: 36_000, smollm3: 25_760 },
      }[name],
    );
  });

  it('of any size and format, in any number of files, is read number for number into shared memory', async () => {
    const folder = await temporaryFolder();
    let run = 0;
    const property = fc.asyncProperty(contents, async (written) => {
      const path = join(folder, String(run++));
      await writeFolder(path, written);
      const { weights } = await readCheckpoint(path);
      expect([...weights.keys()].toSorted()).toEqual([...written.tensors.keys()].toSorted());
      for (const [name, { bytes }] of written.tensors) {
        expect(Array.from(weights.get(name) ?? [])).toEqual(numbersOf(written.format, bytes));
        expect(weights.get(name)?.buffer).toBeInstanceOf(SharedArrayBuffer);
      }
    });
    await fc.assert(property, { seed: testSeed, numRuns: 60 });
  });

  it('of Gemma 3 is read from configurations in all forms, and with the defaults of transformers', async () => {
    const folder = await temporaryFolder();
    await cp(fixtureFolder('gemma3'), folder, { recursive: true });
    const path = join(folder, 'config.json');
    const config = JSON.parse(await readFile(path, 'utf8'));
    const read = async (fields: Record<string, unknown>) => {
      await writeFile(path, JSON.stringify({ ...config, ...fields }));
      return readConfig(folder).architecture;
    };
    const own = await read({});
    const later = {
      ...{ rope_scaling: undefined, rope_theta: undefined, rope_local_base_freq: undefined },
      ...{ sliding_window_pattern: undefined, torch_dtype: undefined, dtype: 'bfloat16' },
      layer_types: ['sliding_attention', 'sliding_attention', 'full_attention'],
      rope_parameters: {
        full_attention: { rope_type: 'linear', factor: 4, rope_theta: 10_000 },
        sliding_attention: { rope_type: 'default', rope_theta: 100 },
      },
      tie_word_embeddings: true,
    };
    expect(await read(later)).toEqual(own);
    const few = await read({
      ...later,
      ...{ rope_parameters: undefined, layer_types: undefined, num_hidden_layers: 12, sliding_window: null },
      ...{ query_pre_attn_scalar: null, head_dim: null, num_key_value_heads: null, dtype: 'float32' },
    });
    const isLocal = (_: unknown, layer: number) => layer !== 5 && layer !== 11;
    expect(few).toMatchObject({
      ...{ headWidth: 256, keyValueHeads: 4, attentionScale: 1 / 16, embeddingScale: Math.fround(32 ** 0.5) },
      positions: { theta: 1_000_000, scaling: null },
      local: {
        layers: Array.from({ length: 12 }, isLocal),
        window: 4096,
        positions: { theta: 10_000, scaling: null },
      },
    });
  });

  it('of LFM2 is read from configurations in all forms, and with the defaults of transformers', async () => {
    const folder = await temporaryFolder();
    await cp(fixtureFolder('lfm2'), folder, { recursive: true });
    const path = join(folder, 'config.json');
    const config = JSON.parse(await readFile(path, 'utf8'));
    const read = async (fields: Record<string, unknown>) => {
      await writeFile(path, JSON.stringify({ ...config, ...fields }));
      return readConfig(folder).architecture;
    };
    const own = await read({});
    const later = {
      ...{ full_attn_idxs: undefined, rope_theta: undefined, block_ff_dim: undefined },
      layer_types: ['conv', 'full_attention', 'conv'],
      rope_parameters: { rope_type: 'default', rope_theta: 1_000_000 },
      intermediate_size: 84,
      tie_word_embeddings: true,
    };
    expect(await read(later)).toEqual(own);
    const few = {
      ...{ full_attn_idxs: null, rope_theta: null, norm_eps: null, conv_L_cache: null, conv_bias: null },
      ...{ block_multiple_of: null, block_ffn_dim_multiplier: null, block_auto_adjust_ff_dim: null },
      ...{ num_key_value_heads: null, num_attention_heads: 16 },
    };
    expect(await read(few)).toMatchObject({
      ...{ keyValueHeads: 8, headWidth: 2, mlpWidth: 256, normEpsilon: 1e-5, tiedEmbeddings: true },
      positions: { theta: 1_000_000, scaling: null },
      convolutions: { layers: [false, false, false], taps: 3 },
    });
    // Those of the published 350M, 700M and 1.2B, as transformers computes them.
    for (const [block_ff_dim, mlpWidth] of [
      [6656, 4608],
      [10_240, 6912],
      [12_288, 8192],
    ])
      expect(await read({ ...few, block_ff_dim })).toMatchObject({ mlpWidth });
    expect((await read({ block_ffn_dim_multiplier: 1.3 })).mlpWidth).toBe(80);
    const plain = await read({ block_auto_adjust_ff_dim: false, tie_embedding: false });
    expect(plain).toMatchObject({ mlpWidth: 84, tiedEmbeddings: false });
  });

  it('of Mistral has windows where its configuration has them and they are shorter than its context', async () => {
    const folder = await temporaryFolder();
    await cp(fixtureFolder('mistral'), folder, { recursive: true });
    const path = join(folder, 'config.json');
    const config = JSON.parse(await readFile(path, 'utf8'));
    const read = async (fields: Record<string, unknown>) => {
      await writeFile(path, JSON.stringify({ ...config, ...fields }));
      return readConfig(folder).architecture;
    };
    expect((await read({ sliding_window: null })).local).toBeNull();
    expect((await read({ sliding_window: 512 })).local).toBeNull();
    // The default of transformers.
    const long = { sliding_window: undefined, max_position_embeddings: 32_768 };
    expect((await read(long)).local).toMatchObject({ layers: [true, true], window: 4096 });
    const ministral = { model_type: 'ministral', layer_types: ['full_attention', 'sliding_attention'] };
    expect((await read(ministral)).local).toMatchObject({ layers: [false, true], window: 5 });
    const few = await read({ head_dim: null, num_attention_heads: 8, num_key_value_heads: null });
    expect(few).toMatchObject({ keyValueHeads: 8, headWidth: 4 });
  });

  it('of SmolLM3 has layers that do not rotate, by a list or each fourth', async () => {
    const folder = await temporaryFolder();
    await cp(fixtureFolder('smollm3'), folder, { recursive: true });
    const path = join(folder, 'config.json');
    const config = JSON.parse(await readFile(path, 'utf8'));
    const few = {
      no_rope_layers: null,
      no_rope_layer_interval: null,
      layer_types: null,
      num_hidden_layers: 8,
    };
    await writeFile(path, JSON.stringify({ ...config, ...few }));
    const { architecture } = readConfig(folder);
    const layers = [false, false, false, true, false, false, false, true];
    expect(architecture.local?.layers).toEqual(layers);
    expect(smollm3.gguf.fields(architecture)).toEqual({});
    const other = { ...architecture, local: { ...architecture.local!, layers: layers.toReversed() } };
    expect(() => smollm3.gguf.fields(other)).toThrow(
      /by no_rope_layers layer 0 differs\. Export with --merged/,
    );
  });

  it('of Granite has the factors 1 where its configuration has none, and layers by either name', async () => {
    const folder = await temporaryFolder();
    await cp(fixtureFolder('granite4'), folder, { recursive: true });
    const path = join(folder, 'config.json');
    const config = JSON.parse(await readFile(path, 'utf8'));
    const missing = { embedding_multiplier: null, attention_multiplier: null, residual_multiplier: null };
    const later = { layer_types: null, layers_block_type: ['full_attention', 'full_attention'] };
    await writeFile(path, JSON.stringify({ ...config, ...missing, ...later, logits_scaling: null }));
    expect(readConfig(folder).architecture).toMatchObject({
      ...{ embeddingScale: 1, attentionScale: 1, residualScale: 1, logitScale: 1, joinedGate: true },
    });
  });

  it('with tied embeddings may store its head too, if it is the same', async () => {
    const folder = await temporaryFolder();
    await cp(fixtureFolder('qwen2'), folder, { recursive: true });
    const { tensors } = await readTensors(join(folder, 'model.safetensors'));
    const table = tensors.get('model.embed_tokens.weight') as Tensor;
    tensors.set('lm_head.weight', table);
    tensors.set('model.layers.0.self_attn.rotary_emb.inv_freq', { shape: [4], bytes: new Uint8Array(8) });
    await writeFile(join(folder, 'model.safetensors'), safetensors('BF16', tensors));
    expect((await readCheckpoint(folder)).weights.has('lm_head.weight')).toBe(false);
    tensors.set('lm_head.weight', { ...table, bytes: table.bytes.toReversed() });
    await writeFile(join(folder, 'model.safetensors'), safetensors('BF16', tensors));
    await expect(readCheckpoint(folder)).rejects.toThrow(/lm_head.weight differs .* tie_word_embeddings/);
  });
});

async function readTensors(path: string): Promise<{ tensors: Map<string, Tensor> }> {
  const file = await readFile(path);
  const start = 8 + Number(file.readBigUInt64LE(0));
  const { __metadata__, ...entries } = JSON.parse(file.toString('utf8', 8, start));
  const tensors = new Map<string, Tensor>();
  for (const [name, entry] of Object.entries<{ shape: number[]; data_offsets: [number, number] }>(entries)) {
    const [from, to] = entry.data_offsets;
    tensors.set(name, { shape: entry.shape, bytes: file.subarray(start + from, start + to) });
  }
  return { tensors };
}

describe('a folder is refused with file, field and value', () => {
  const refused = async (name: (typeof fixtureNames)[number], change: (folder: string) => Promise<void>) => {
    const folder = await temporaryFolder();
    await cp(fixtureFolder(name), folder, { recursive: true });
    await change(folder);
    const error: unknown = await readCheckpoint(folder).catch((reason: unknown) => reason);
    if (!(error instanceof Error && 'code' in error)) throw new Error(`not refused: ${error}`);
    expect(error.message).toContain(folder);
    return `${error.code} ${error.message.replaceAll(`${folder}/`, '')}`;
  };

  const withConfig = (fields: Record<string, unknown>, name: (typeof fixtureNames)[number] = 'qwen2') =>
    refused(name, async (folder) => {
      const path = join(folder, 'config.json');
      await writeFile(path, JSON.stringify({ ...JSON.parse(await readFile(path, 'utf8')), ...fields }));
    });

  it.each<[Record<string, unknown>, string]>([
    [{ model_type: 'gpt_oss' }, 'Serve gpt-oss from a training server (--engine tinker)'],
    [
      { model_type: 'phi3' },
      'model_type is "phi3". martingale runs llama, qwen2, qwen3, gemma3_text, lfm2, smollm3, mistral, ministral, granite, granitemoehybrid. Choose',
    ],
    [
      { model_type: 'qwen3_5' },
      'model_type is "qwen3_5". martingale runs llama, qwen2, qwen3, gemma3_text, lfm2',
    ],
    [{ model_type: 'constructor' }, 'model_type is "constructor". martingale runs llama'],
    [{ model_type: 'lfm2_moe' }, 'model_type is "lfm2_moe". martingale runs LFM2 without experts'],
    [{ model_type: 'lfm2_vl' }, 'model_type is "lfm2_vl". martingale runs LFM2 without images'],
    [{ model_type: 'qwen3_moe' }, 'model_type is "qwen3_moe"'],
    [{ model_type: 'mixtral' }, 'model_type is "mixtral". martingale runs Mistral without experts'],
    [{ model_type: 'mistral3' }, 'model_type is "mistral3". martingale runs Mistral without images'],
    [{ model_type: 'ministral3' }, 'model_type is "ministral3". martingale runs no Ministral 3'],
    [{ model_type: 'granitemoe' }, 'model_type is "granitemoe". martingale runs Granite without experts'],
    [{ model_type: undefined }, 'config.json has no model_type'],
    [
      { model_type: 'gemma3' },
      'model_type is "gemma3". martingale runs Gemma 3 without images (gemma3_text)',
    ],
    [{ model_type: 'gemma3n' }, 'model_type is "gemma3n". martingale does not run Gemma 3n'],
    [{ model_type: 'gemma3n_text' }, 'martingale does not run Gemma 3n. Choose Gemma 3 270M or 1B'],
    [{ model_type: 'gemma2' }, 'martingale runs llama, qwen2, qwen3, gemma3_text'],
    [{ num_experts: 8 }, 'num_experts is 8'],
    [{ num_local_experts: 8 }, 'num_local_experts is 8'],
    [{ quantization_config: { quant_method: 'awq' } }, 'quantization_config is {"quant_method":"awq"}'],
    [{ hidden_act: 'gelu' }, 'hidden_act is "gelu"'],
    [{ mlp_bias: true }, 'mlp_bias is true'],
    [{ use_sliding_window: true, max_window_layers: 1 }, 'use_sliding_window is true'],
    [
      { layer_types: ['full_attention', 'sliding_attention'] },
      'layer_types is ["full_attention","sliding_attention"]',
    ],
    [{ rope_scaling: { type: 'yarn', factor: 4 } }, 'rope_scaling.type is "yarn"'],
    [{ rope_scaling: { rope_type: 'linear', factor: 2 } }, 'rope_scaling.rope_type is "linear"'],
    [{ rope_parameters: { rope_type: 'dynamic', factor: 2 } }, 'rope_parameters.rope_type is "dynamic"'],
    [{ rope_parameters: { partial_rotary_factor: 0.5 } }, 'rope_parameters.partial_rotary_factor is 0.5'],
    [{ partial_rotary_factor: 0.5 }, 'partial_rotary_factor is 0.5'],
  ])('that is not supported: %j', async (fields, message) => {
    const error = await withConfig(fields);
    expect(error).toMatch(/^checkpoint_unsupported config\.json/);
    expect(error).toContain(message);
  });

  it.each<[Record<string, unknown>, string]>([
    [{ hidden_activation: 'gelu' }, 'hidden_activation is "gelu"'],
    [{ attn_logit_softcapping: 50 }, 'attn_logit_softcapping is 50'],
    [{ final_logit_softcapping: 30 }, 'final_logit_softcapping is 30'],
    [{ use_bidirectional_attention: true }, 'use_bidirectional_attention is true'],
    [{ attention_bias: true }, 'attention_bias is true'],
    [{ layer_types: ['sliding_attention', 'linear_attention', 'full_attention'] }, 'layer_types is ['],
    [{ rope_scaling: { rope_type: 'llama3', factor: 8 } }, 'martingale runs "default" and "linear"'],
    [
      { rope_parameters: { sliding_attention: { rope_type: 'linear', factor: 8 } } },
      'rope_parameters.sliding_attention.rope_type is "linear"',
    ],
  ])('that is a Gemma 3 that is not supported: %j', async (fields, message) => {
    const error = await withConfig(fields, 'gemma3');
    expect(error).toMatch(/^checkpoint_unsupported config\.json/);
    expect(error).toContain(message);
  });

  it.each<[Record<string, unknown>, string]>([
    [{ layer_types: ['full_attention'] }, 'It must be a list of 3 layers (num_hidden_layers)'],
    [{ sliding_window: 0 }, 'sliding_window is 0'],
    [{ sliding_window_pattern: 'six' }, 'sliding_window_pattern is "six"'],
    [{ query_pre_attn_scalar: 0 }, 'query_pre_attn_scalar is 0'],
    [{ rope_local_base_freq: 'x' }, 'rope_local_base_freq is "x"'],
    [{ head_dim: null }, 'is [16]. It must be [256] by config.json'],
  ])('that is a Gemma 3 that contradicts itself: %j', async (fields, message) => {
    const error = await withConfig(fields, 'gemma3');
    expect(error).toMatch(/^bad_checkpoint /);
    expect(error).toContain(message);
  });

  it.each<[Record<string, unknown>, string]>([
    [{ conv_bias: true }, 'checkpoint_unsupported config.json: conv_bias is true. martingale runs'],
    [
      { layer_types: ['conv', 'sliding_attention', 'conv'] },
      'checkpoint_unsupported config.json: layer_types',
    ],
    [{ rope_scaling: { rope_type: 'yarn' } }, 'checkpoint_unsupported config.json: rope_scaling.rope_type'],
    [{ layer_types: ['conv'] }, 'It must be a list of 3 layers (num_hidden_layers)'],
    [{ full_attn_idxs: 'all' }, 'full_attn_idxs is "all". It must be a list of layers'],
    [{ full_attn_idxs: [0] }, 'has tensor model.layers.0.conv.conv.weight, which the model'],
    [{ conv_L_cache: 0 }, 'conv_L_cache is 0'],
    [{ conv_L_cache: 4 }, 'model.layers.0.conv.conv.weight is [32,1,3]. It must be [32,1,4]'],
    [
      { block_ff_dim: 1 },
      'block_ff_dim is 1. With block_ffn_dim_multiplier and block_multiple_of it makes an MLP of width 0',
    ],
    [{ block_auto_adjust_ff_dim: false }, 'feed_forward.w1.weight is [64,32]. It must be [84,32]'],
  ])('that is an LFM2 that is not supported, or contradicts itself: %j', async (fields, message) => {
    expect(await withConfig(fields, 'lfm2')).toContain(message);
  });

  it.each<[(typeof fixtureNames)[number], Record<string, unknown>, string]>([
    [
      'mistral',
      { layer_types: ['full_attention', 'sliding_attention'] },
      'checkpoint_unsupported config.json: layer_types is ["full_attention","sliding_attention"]. martingale runs layers of mistral that are all alike',
    ],
    ['mistral', { sliding_window: 0 }, 'bad_checkpoint config.json: sliding_window is 0'],
    [
      'mistral',
      { model_type: 'ministral', layer_types: ['full_attention'] },
      'It must be a list of 2 layers (num_hidden_layers)',
    ],
    ['mistral', { rope_scaling: { rope_type: 'yarn', factor: 4 } }, 'rope_scaling.rope_type is "yarn"'],
    [
      'smollm3',
      { no_rope_layers: [1] },
      'no_rope_layers is [1]. It must be a list with 0 or 1 for each of 2',
    ],
    ['smollm3', { no_rope_layers: [1, true] }, 'bad_checkpoint config.json: no_rope_layers is [1,true]'],
    ['smollm3', { use_sliding_window: true }, 'use_sliding_window is true. martingale runs SmolLM3 without'],
    [
      'smollm3',
      { layer_types: ['full_attention', 'sliding_attention'] },
      'checkpoint_unsupported config.json: layer_types is',
    ],
    ['granite', { attention_bias: true }, 'checkpoint_unsupported config.json: attention_bias is true'],
    ['granite', { logits_scaling: 0 }, 'bad_checkpoint config.json: logits_scaling is 0'],
    ['granite', { residual_multiplier: 'x' }, 'bad_checkpoint config.json: residual_multiplier is "x"'],
    [
      'granite4',
      { layer_types: ['mamba', 'attention'] },
      'checkpoint_unsupported config.json: layer_types is ["mamba","attention"]. martingale runs Granite 4.0 without experts and state space layers: 350M and 1B',
    ],
    ['granite4', { layer_types: null }, 'config.json has no layers_block_type. martingale runs Granite 4.0'],
    ['granite4', { layer_types: ['attention'] }, 'It must be a list of 2 layers (num_hidden_layers)'],
    ['granite4', { num_local_experts: 8 }, 'num_local_experts is 8. martingale runs models without experts'],
    ['granite4', { num_local_experts: null }, 'config.json has no num_local_experts. martingale runs'],
    [
      'granite4',
      { position_embedding_type: null },
      'has no position_embedding_type. martingale runs Granite 4.0 with rotary positions',
    ],
    [
      'granite4',
      { shared_intermediate_size: 40 },
      'shared_mlp.input_linear.weight is [96,32]. It must be [80,32]',
    ],
  ])('that is a %s that is not supported, or contradicts itself: %j', async (name, fields, message) => {
    expect(await withConfig(fields, name)).toContain(message);
  });

  it('that is a Llama with biases', async () => {
    expect(await withConfig({ attention_bias: true }, 'llama')).toContain('attention_bias is true');
  });

  it.each<[Record<string, unknown>, string]>([
    [{ hidden_size: '32' }, 'hidden_size is "32". It must be a whole number of 1 to 131072'],
    [{ num_hidden_layers: undefined }, 'config.json has no num_hidden_layers. It must be'],
    [{ vocab_size: 0.5 }, 'vocab_size is 0.5'],
    [{ rms_norm_eps: null }, 'config.json has no rms_norm_eps'],
    [{ rope_theta: -1 }, 'rope_theta is -1'],
    [{ rope_scaling: 'llama3' }, 'rope_scaling is "llama3". It must be an object'],
    [{ rope_scaling: { rope_type: 'llama3', factor: 8 } }, 'config.json has no rope_scaling.low_freq_factor'],
    [{ num_key_value_heads: 3 }, 'num_attention_heads is 4. It must be a multiple of num_key_value_heads, 3'],
    [{ hidden_size: 34 }, 'hidden_size is 34. It must be a multiple of num_attention_heads, 4'],
    [{ head_dim: 7 }, 'hidden_size / num_attention_heads, is 7. It must be even'],
    [{ tie_word_embeddings: 'yes' }, 'tie_word_embeddings is "yes". It must be true or false'],
    [{ eos_token_id: 'end' }, 'eos_token_id is "end". It must be a token id'],
    [{ eos_token_id: 320 }, 'eos_token_id is 320. It must be below vocab_size, 320'],
    [{ intermediate_size: 81 }, 'tensor model.layers.0.mlp.down_proj.weight is [32,80]. It must be [32,81]'],
    [{ num_hidden_layers: 1 }, 'has tensor model.layers.1.'],
    [{ num_hidden_layers: 3 }, 'model.safetensors has no tensor model.layers.2.input_layernorm.weight'],
    [{ tie_word_embeddings: false }, 'model.safetensors has no tensor lm_head.weight'],
  ])('that contradicts itself: %j', async (fields, message) => {
    const error = await withConfig(fields);
    expect(error).toMatch(/^bad_checkpoint /);
    expect(error).toContain(message);
  });

  const single = 'model.safetensors';
  const shard = 'model-00002-of-00002.safetensors';
  const index = 'model.safetensors.index.json';
  const remove = (file: string) => (folder: string) => rm(join(folder, file));
  const write = (file: string, text: string) => (folder: string) => writeFile(join(folder, file), text);

  it.each<[string, (typeof fixtureNames)[number], (folder: string) => Promise<void>, string]>([
    ['no configuration', 'qwen2', remove('config.json'), 'config.json does not exist'],
    ['a broken configuration', 'qwen2', write('config.json', '{'), 'config.json is not JSON'],
    ['a list as configuration', 'qwen2', write('config.json', '[]'), 'config.json holds a list of 0'],
    [
      'no weights',
      'qwen2',
      remove(single),
      'has neither model.safetensors nor model.safetensors.index.json. Fetch',
    ],
    ['a missing shard', 'llama', remove(shard), `${shard} does not exist, but ${index} names it`],
    [
      'a file cut off',
      'qwen2',
      (folder) => truncate(join(folder, single), 60_000),
      `${single} is cut off in tensor`,
    ],
    [
      'a header cut off',
      'qwen2',
      (folder) => truncate(join(folder, single), 100),
      `${single} is cut off in its header`,
    ],
    ['an empty file', 'qwen2', (folder) => truncate(join(folder, single), 0), `${single} is too short`],
    [
      'a shard cut off',
      'llama',
      (folder) => truncate(join(folder, shard), 60_000),
      `${shard} is cut off in tensor`,
    ],
    [
      'a pointer',
      'qwen2',
      write(single, 'version https://git-lfs.github.com/spec/v1\n'),
      'pointer of Git LFS',
    ],
    ['a broken index', 'llama', write(index, '{"weight_map":{}}'), `${index} has no weight_map`],
    [
      'a path in the index',
      'llama',
      write(index, '{"weight_map":{"a":"../model.safetensors"}}'),
      'weight_map.a is "../model.safetensors". It must be the name of a safetensors file',
    ],
    [
      'an index of other files',
      'llama',
      write(index, `{"weight_map":{"a":"${shard}"}}`),
      `${shard} has no tensor a, but ${index} says it has`,
    ],
  ])('that has %s', async (_, name, change, message) => {
    const error = await refused(name, change);
    expect(error).toMatch(/^bad_checkpoint /);
    expect(error).toContain(message);
  });

  it('that has its weights in another form', async () => {
    const error = await refused('qwen2', async (folder) => {
      await remove(single)(folder);
      await write('pytorch_model.bin', '')(folder);
    });
    expect(error).toContain('pytorch_model.bin is in another form');
  });

  it('that has another number format', async () => {
    const error = await refused('qwen2', async (folder) => {
      const { tensors } = await readTensors(join(folder, single));
      await writeFile(join(folder, single), safetensors('F8_E4M3', tensors));
    });
    expect(error).toMatch(/^checkpoint_unsupported model\.safetensors: tensor .* is F8_E4M3/);
  });

  it('that has a tensor twice', async () => {
    const error = await refused('llama', async (folder) => {
      const { tensors } = await readTensors(join(folder, shard));
      const path = join(folder, 'model-00001-of-00002.safetensors');
      const first = (await readTensors(path)).tensors;
      await writeFile(path, safetensors('F32', new Map([...first, ...tensors])));
    });
    expect(error).toMatch(
      /^bad_checkpoint model-00002-of-00002\.safetensors has tensor .* which another file has too/,
    );
  });
});

it('a window that no layer uses, and null in place of what is missing, are accepted', async () => {
  const folder = await temporaryFolder();
  await cp(fixtureFolder('qwen2'), folder, { recursive: true });
  const path = join(folder, 'config.json');
  const config = JSON.parse(await readFile(path, 'utf8'));
  const fields = {
    use_sliding_window: true,
    max_window_layers: 2,
    rope_scaling: null,
    quantization_config: null,
  };
  await writeFile(path, JSON.stringify({ ...config, ...fields, head_dim: null, eos_token_id: null }));
  expect((await readCheckpoint(folder)).endTokens).toEqual([314, 313]);
});
