import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readConfig } from '../../../../src/engines/embedded/checkpoint/config.ts';
import { checkpointTensors } from '../../../../src/engines/embedded/checkpoint/tensors.ts';
import { Random } from '../../../../src/engines/embedded/random.ts';
import { writeFolder } from './folder.ts';

export type Family = 'llama3' | 'qwen2' | 'qwen3' | 'smollm2' | 'gemma3' | 'lfm2' | 'granite' | 'mistral';

/** What other programs call them. */
const architectures = {
  llama: 'LlamaForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  qwen3: 'Qwen3ForCausalLM',
  gemma3_text: 'Gemma3ForCausalLM',
  lfm2: 'Lfm2ForCausalLM',
  granitemoehybrid: 'GraniteMoeHybridForCausalLM',
  mistral: 'MistralForCausalLM',
};

/** What only Gemma says. Its window is shorter than most conversations. */
const gemma3 = {
  dtype: 'bfloat16',
  hidden_activation: 'gelu_pytorch_tanh',
  query_pre_attn_scalar: 8,
  sliding_window: 16,
  layer_types: ['sliding_attention', 'full_attention'],
  rope_local_base_freq: 1000,
};

/** What only LFM2 says. */
const lfm2 = {
  norm_eps: 1e-5,
  block_auto_adjust_ff_dim: false,
  conv_L_cache: 3,
  layer_types: ['conv', 'full_attention'],
};

/** What only Granite 4.0 says. */
const granite = {
  embedding_multiplier: 2,
  attention_multiplier: 0.25,
  residual_multiplier: 0.5,
  logits_scaling: 2,
  num_local_experts: 0,
  shared_intermediate_size: 48,
  layer_types: ['attention', 'attention'],
  position_embedding_type: 'rope',
};

const modelTypes = {
  llama3: 'llama',
  smollm2: 'llama',
  qwen2: 'qwen2',
  qwen3: 'qwen3',
  gemma3: 'gemma3_text',
  lfm2: 'lfm2',
  granite: 'granitemoehybrid',
  mistral: 'mistral',
} as const;

const languages = fileURLToPath(new URL('../../../language/fixtures/', import.meta.url));

/**
 * Writes a small instruct checkpoint of a family with random weights, and returns its folder. Its matrices have more rows
 * than its tokenizer has ids, as those of Qwen do. The embeddings are large, so that its logits differ.
 */
export async function generateCheckpoint(
  parent: string,
  family: Family,
  {
    contextLength = 512,
    vocabularySize = 736,
    logitScale = 1,
  }: {
    contextLength?: number;
    vocabularySize?: number;
    /** Factor of the logits. At 1, no token can get a probability above 0.6, whatever an adapter learns. */
    logitScale?: number;
  } = {},
): Promise<string> {
  const folder = join(parent, `${family}-generated`);
  const modelType = modelTypes[family];
  const config = {
    architectures: [architectures[modelType]],
    model_type: modelType,
    dtype: 'float32',
    vocab_size: vocabularySize,
    hidden_size: 32,
    intermediate_size: 48,
    num_hidden_layers: 2,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    head_dim: 8,
    max_position_embeddings: contextLength,
    rms_norm_eps: 1e-6,
    rope_theta: 10_000,
    tie_word_embeddings: true,
    ...(family === 'gemma3' ? gemma3 : {}),
    ...(family === 'lfm2' ? lfm2 : {}),
    ...(family === 'granite' ? granite : {}),
    ...(family === 'mistral' ? { sliding_window: null } : {}),
  };
  await writeFolder(folder, { config, format: 'F32', tensors: new Map() });
  const { architecture } = readConfig(folder);
  const random = new Random(11);
  const tensors = checkpointTensors(architecture).map(({ name, dimensions }) => {
    const size = dimensions.reduce((product, dimension) => product * dimension, 1);
    const gain = name.endsWith('norm.weight') ? 1 : 0;
    const scale = /^model\.(embedding_)?norm\.weight$/.test(name) ? logitScale : 1;
    // What a norm adds to its weights.
    const less = gain * architecture.normOffset;
    const values = Float32Array.from({ length: size }, () => scale * (gain + 0.25 * random.normal()) - less);
    return [name, { shape: dimensions, bytes: new Uint8Array(values.buffer) }] as const;
  });
  await writeFolder(folder, { config, format: 'F32', tensors: new Map(tensors) });
  await cp(join(languages, family), folder, { recursive: true });
  return folder;
}
