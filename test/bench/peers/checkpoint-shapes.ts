import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, open, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readConfig } from '../../../src/engines/embedded/checkpoint/config.ts';
import { checkpointTensors } from '../../../src/engines/embedded/checkpoint/tensors.ts';
import { Random } from '../../../src/engines/embedded/random.ts';
import { root } from '../../support/programs.ts';

/** A published model whose shape is measured, with random weights. */
export interface CheckpointShape {
  name: string;
  /** Whose tokenizer and template it gets. They have fewer ids than its matrices have rows. */
  family: 'smollm2' | 'qwen2';
  config: Record<string, unknown>;
  /** Sequences of 256 tokens in a measured training step. */
  trainingBatch: number;
}

const common = {
  dtype: 'bfloat16',
  max_position_embeddings: 2048,
  tie_word_embeddings: true,
  hidden_act: 'silu',
};

export const checkpointShapes: Record<string, CheckpointShape> = {
  '135M': {
    name: 'SmolLM2-135M',
    family: 'smollm2',
    trainingBatch: 4,
    config: {
      ...common,
      architectures: ['LlamaForCausalLM'],
      model_type: 'llama',
      vocab_size: 49152,
      hidden_size: 576,
      intermediate_size: 1536,
      num_hidden_layers: 30,
      num_attention_heads: 9,
      num_key_value_heads: 3,
      rms_norm_eps: 1e-5,
      rope_theta: 100_000,
    },
  },
  '0.5B': {
    name: 'Qwen2.5-0.5B',
    family: 'qwen2',
    trainingBatch: 2,
    config: {
      ...common,
      architectures: ['Qwen2ForCausalLM'],
      model_type: 'qwen2',
      vocab_size: 151936,
      hidden_size: 896,
      intermediate_size: 4864,
      num_hidden_layers: 24,
      num_attention_heads: 14,
      num_key_value_heads: 2,
      rms_norm_eps: 1e-6,
      rope_theta: 1_000_000,
      use_sliding_window: false,
    },
  },
};

const languages = fileURLToPath(new URL('../../language/fixtures/', import.meta.url));
const cache = join(root, 'node_modules/.cache/checkpoints');

/** The folder of a checkpoint in Hugging Face form, in bf16. It is written once; it appears completely or not at all. */
export async function shapedCheckpoint({ name, family, config }: CheckpointShape): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(config)).digest('hex').slice(0, 8);
  const folder = join(cache, `${name}-${hash}`);
  if (existsSync(folder)) return folder;
  console.error(`Writing random weights of the shape of ${name}, once, in ${folder}.`);
  const partial = `${folder}.${process.pid}`;
  await mkdir(partial, { recursive: true });
  try {
    await cp(join(languages, family), partial, { recursive: true });
    await writeFile(join(partial, 'config.json'), JSON.stringify(config));
    await writeWeights(partial);
    await rename(partial, folder);
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
  return folder;
}

/** Norms are 1, biases 0, matrices normal with standard deviation 0.02, as untrained models of these families have it. */
async function writeWeights(folder: string): Promise<void> {
  // The reader of configurations does not need the weights.
  const { architecture } = readConfig(folder);
  const tensors = checkpointTensors(architecture).map(({ name, dimensions }) => ({
    name,
    dimensions,
    size: dimensions.reduce((product, dimension) => product * dimension, 1),
  }));
  let end = 0;
  const entries = tensors.map(({ name, dimensions, size }) => {
    const start = end;
    end += 2 * size;
    return [name, { dtype: 'BF16', shape: dimensions, data_offsets: [start, end] }];
  });
  const header = Buffer.from(
    JSON.stringify({ __metadata__: { format: 'pt' }, ...Object.fromEntries(entries) }),
  );
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const normals = normalBf16(0.02);
  const file = await open(join(folder, 'model.safetensors'), 'w');
  try {
    await file.writeFile(Buffer.concat([length, header]));
    for (const { name, size } of tensors) await file.writeFile(valuesOf(name, size, normals));
  } finally {
    await file.close();
  }
}

/** One in bf16. */
const one = 0x3f80;

function valuesOf(name: string, size: number, normals: Uint16Array): Uint8Array {
  const values = new Uint16Array(size);
  if (name.endsWith('norm.weight')) values.fill(one);
  else if (!name.endsWith('.bias')) {
    // A prime number of values, so that no row of a matrix is like another.
    for (let at = 0; at < size; at += normals.length)
      values.set(normals.subarray(0, Math.min(normals.length, size - at)), at);
  }
  return new Uint8Array(values.buffer);
}

function normalBf16(deviation: number): Uint16Array {
  const random = new Random(11);
  const floats = Float32Array.from({ length: 1_000_003 }, () => deviation * random.normal());
  return Uint16Array.from(new Uint32Array(floats.buffer), (bits) => bits >>> 16);
}
