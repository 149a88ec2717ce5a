import type { ModelFiles } from '../../../language/tokenizer/model-files.ts';
import { EngineError } from '../../engine.ts';
import type { Architecture, RotaryScaling } from '../weights/architecture.ts';
import { badCheckpoint, JsonFields } from './json-file.ts';

const modelTypes = ['llama', 'qwen2', 'qwen3'] as const;

/** The families that martingale runs, as `config.json` calls them. SmolLM2 is a `llama`, Qwen2.5 a `qwen2`. */
export type ModelType = (typeof modelTypes)[number];

/**
 * Most of what a configuration may say: a few times what published models have, so that a wrong number is told before it
 * takes memory. Sizes beyond what the tensors have are refused with the tensors.
 */
const most = {
  layers: 1024,
  heads: 4096,
  headWidth: 4096,
  width: 1 << 17,
  mlpWidth: 1 << 20,
  vocabulary: 1 << 22,
  context: 1 << 27,
} as const;

export interface CheckpointConfig {
  modelType: ModelType;
  architecture: Architecture;
  /** Tokens that end a reply, by `generation_config.json` and `config.json`. */
  endTokens: number[];
}

/** Fields that change the model when they have another value than these. Missing and null mean the first. */
const fixed: readonly (readonly [field: string, values: readonly unknown[], remedy: string])[] = [
  ['hidden_act', ['silu'], 'martingale runs MLPs with "silu" only'],
  ['attention_bias', [false], 'martingale runs biases of queries, keys and values in qwen2 only'],
  ['mlp_bias', [false], 'martingale runs MLPs without biases'],
  ['num_experts', [0, 1], 'martingale runs models without experts: choose a dense checkpoint'],
  ['num_local_experts', [0, 1], 'martingale runs models without experts: choose a dense checkpoint'],
  ['partial_rotary_factor', [1], 'martingale rotates whole heads only'],
];

/**
 * Reads `config.json` and `generation_config.json` of a checkpoint in Hugging Face form. Both forms of the rotary
 * settings are read: `rope_theta` with `rope_scaling`, and `rope_parameters` of transformers 5.
 *
 * @throws EngineError (`checkpoint_unsupported`, `bad_checkpoint`) that names file, field and value.
 */
export function readConfig(from: string | ModelFiles): CheckpointConfig {
  const config = JsonFields.read(from, 'config.json');
  const modelType = modelTypeOf(config);
  refuseUnsupported(config);
  const architecture = architectureOf(config, modelType);
  const generation = JsonFields.find(from, 'generation_config.json');
  const endTokens = [...new Set([generation, config].flatMap((file) => endTokensOf(file, architecture)))];
  return { modelType, architecture, endTokens };
}

function modelTypeOf(config: JsonFields): ModelType {
  const modelType = modelTypes.find((name) => name === config.get('model_type'));
  const remedy = `martingale runs ${modelTypes.join(', ')}: choose a checkpoint of these (Llama 3, SmolLM2, Qwen2.5, Qwen3)`;
  if (!modelType) throw config.unsupported('model_type', remedy);
  return modelType;
}

function refuseUnsupported(config: JsonFields): void {
  if (config.get('quantization_config') !== undefined)
    throw config.unsupported(
      'quantization_config',
      'martingale reads float32, bfloat16 and float16: choose the checkpoint that is not quantized',
    );
  for (const [field, values, remedy] of fixed) {
    const value = config.get(field);
    if (value !== undefined && !values.includes(value)) throw config.unsupported(field, remedy);
  }
  refuseWindows(config);
}

/** `sliding_window` alone means nothing: published checkpoints have it with `use_sliding_window` false. */
function refuseWindows(config: JsonFields): void {
  const layerTypes = config.get('layer_types');
  if (layerTypes !== undefined) {
    if (Array.isArray(layerTypes) && layerTypes.every((type) => type === 'full_attention')) return;
    throw config.unsupported('layer_types', 'martingale runs layers of "full_attention" only');
  }
  if (!config.flag('use_sliding_window', false) || config.get('sliding_window') === undefined) return;
  // The default of transformers.
  const fullLayers = config.get('max_window_layers') ?? 28;
  if (typeof fullLayers === 'number' && fullLayers >= config.count('num_hidden_layers', most.layers)) return;
  throw config.unsupported(
    'use_sliding_window',
    'martingale runs attention without windows. Set it to false if sequences stay shorter than sliding_window',
  );
}

function architectureOf(config: JsonFields, modelType: ModelType): Architecture {
  const width = config.count('hidden_size', most.width);
  const heads = config.count('num_attention_heads', most.heads);
  const keyValueHeads = config.count('num_key_value_heads', most.heads, heads);
  const isDivided = (field: string, size: number, divisorField: string, divisor: number) => {
    if (size % divisor === 0) return;
    throw badCheckpoint(
      `${config.path}: ${field} is ${size}, but must be a multiple of ${divisorField}, ${divisor}`,
    );
  };
  isDivided('num_attention_heads', heads, 'num_key_value_heads', keyValueHeads);
  // The default of transformers' Qwen3Config is 128.
  const isDerived = modelType !== 'qwen3' && config.get('head_dim') === undefined;
  if (isDerived) isDivided('hidden_size', width, 'num_attention_heads', heads);
  const headWidth = isDerived ? width / heads : config.count('head_dim', most.headWidth, 128);
  if (headWidth % 2 !== 0)
    throw badCheckpoint(
      `${config.path}: the width of a head, head_dim or hidden_size / num_attention_heads, is ${headWidth}, ` +
        'but must be even, because rotary positions turn pairs of elements',
    );
  return {
    vocabularySize: config.count('vocab_size', most.vocabulary),
    width,
    layers: config.count('num_hidden_layers', most.layers),
    heads,
    keyValueHeads,
    headWidth,
    mlpWidth: config.count('intermediate_size', most.mlpWidth),
    contextLength: config.count('max_position_embeddings', most.context),
    positions: positionsOf(config),
    previousTokens: 0,
    mlp: 'gated-silu',
    normEpsilon: config.number('rms_norm_eps', { least: 1e-12, most: 1 }),
    queryKeyNorm: modelType === 'qwen3',
    attentionBias: modelType === 'qwen2',
    tiedEmbeddings: config.flag('tie_word_embeddings', false),
  };
}

function positionsOf(config: JsonFields): Architecture['positions'] {
  const rope = config.nested('rope_scaling') ?? config.nested('rope_parameters');
  // The default of transformers.
  const theta = (rope?.get('rope_theta') === undefined ? config : rope).number('rope_theta', {
    least: 1,
    most: 1e15,
    fallback: 10_000,
  });
  if (!rope) return { theta, scaling: null };
  const partial = rope.get('partial_rotary_factor');
  if (partial !== undefined && partial !== 1)
    throw rope.unsupported('partial_rotary_factor', 'martingale rotates whole heads only');
  // Early configurations call it `type`.
  const typeField =
    rope.get('rope_type') === undefined && rope.get('type') !== undefined ? 'type' : 'rope_type';
  switch (rope.get(typeField) ?? 'default') {
    case 'default':
      return { theta, scaling: null };
    case 'llama3':
      return { theta, scaling: scalingOf(rope) };
    default:
      throw rope.unsupported(typeField, 'martingale runs "default" and "llama3": choose another checkpoint');
  }
}

function scalingOf(rope: JsonFields): RotaryScaling {
  const scaling = {
    factor: rope.number('factor', { least: 1, most: 1e6 }),
    lowFrequencyFactor: rope.number('low_freq_factor', { least: 1e-6, most: 1e6 }),
    highFrequencyFactor: rope.number('high_freq_factor', { least: 1e-6, most: 1e6 }),
    originalContextLength: rope.count('original_max_position_embeddings', most.context),
  };
  if (scaling.highFrequencyFactor > scaling.lowFrequencyFactor) return scaling;
  throw badCheckpoint(
    `${rope.path}: high_freq_factor of the rotary settings is ${scaling.highFrequencyFactor}, but must be above ` +
      `low_freq_factor, ${scaling.lowFrequencyFactor}`,
  );
}

function endTokensOf(file: JsonFields | undefined, { vocabularySize }: Architecture): number[] {
  const tokens = file?.tokens('eos_token_id') ?? [];
  const outside = tokens.find((token) => token >= vocabularySize);
  if (file && outside !== undefined)
    throw new EngineError(
      'bad_checkpoint',
      `${file.path}: eos_token_id ${outside} is outside the vocabulary of ${vocabularySize} tokens`,
    );
  return tokens;
}
