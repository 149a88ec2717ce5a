import { JsonFields, type ModelFiles } from '../../../language/index.ts';
import { type Architecture, usualOptions } from '../weights/architecture.ts';
import { badCheckpoint } from './bad-checkpoint.ts';
import { gemma3Defaults, gemma3Options } from './gemma3.ts';
import { mostPositions, readPositions } from './layer-settings.ts';
import { lfm2Defaults, lfm2Options } from './lfm2.ts';

const modelTypes = ['llama', 'qwen2', 'qwen3', 'gemma3_text', 'lfm2'] as const;

/** The families that martingale runs, as `config.json` calls them. SmolLM2 is a `llama`, Qwen2.5 a `qwen2`. */
export type ModelType = (typeof modelTypes)[number];

/**
 * The largest sizes of a configuration: a few times larger than in published models, so that a wrong number is refused
 * before it takes memory. A size that the tensors do not have is refused when they are read.
 */
const most = {
  layers: 1024,
  heads: 4096,
  headWidth: 4096,
  width: 1 << 17,
  mlpWidth: 1 << 20,
  vocabulary: 1 << 22,
  context: mostPositions,
} as const;

export interface CheckpointConfig {
  modelType: ModelType;
  architecture: Architecture;
  /** Tokens that end a reply, by `generation_config.json` and `config.json`. */
  endTokens: number[];
}

/** Models of the same families that martingale does not run. */
const otherTypes: ReadonlyMap<unknown, string> = new Map([
  [
    'gemma3',
    'martingale runs Gemma 3 without images (gemma3_text). Choose 270M or 1B, or a GGUF file, which has only the text part.',
  ],
  ['gemma3n', 'martingale does not run Gemma 3n. Choose Gemma 3 270M or 1B (gemma3_text).'],
  ['gemma3n_text', 'martingale does not run Gemma 3n. Choose Gemma 3 270M or 1B (gemma3_text).'],
  ['lfm2_moe', 'martingale runs LFM2 without experts. Choose its 350M, 700M or 1.2B (lfm2).'],
  ['lfm2_vl', 'martingale runs LFM2 without images. Choose its 350M, 700M or 1.2B (lfm2).'],
]);

/** Fields that change the model when they have another value than these. Missing and null mean the first. */
const fixed: readonly (readonly [field: string, values: readonly unknown[], remedy: string])[] = [
  ['hidden_act', ['silu'], 'martingale runs MLPs with "silu" only.'],
  ['attention_bias', [false], 'martingale runs biases of queries, keys and values in qwen2 only.'],
  ['mlp_bias', [false], 'martingale runs MLPs without biases.'],
  ['num_experts', [0, 1], 'martingale runs models without experts. Choose a dense checkpoint.'],
  ['num_local_experts', [0, 1], 'martingale runs models without experts. Choose a dense checkpoint.'],
  ['partial_rotary_factor', [1], 'martingale rotates whole heads only.'],
];

/**
 * Reads `config.json` and `generation_config.json` of a checkpoint in Hugging Face form. Both forms of the rotary
 * settings are read: `rope_theta` with `rope_scaling`, and `rope_parameters` of transformers 5.
 *
 * @throws EngineError or LanguageError (`checkpoint_unsupported`, `bad_checkpoint`) that names file, field and value.
 */
export function readConfig(from: string | ModelFiles): CheckpointConfig {
  const config = JsonFields.read(from, 'config.json');
  const modelType = modelTypeOf(config);
  refuseUnsupported(config, modelType);
  const architecture = architectureOf(config, modelType);
  const generation = JsonFields.find(from, 'generation_config.json');
  const endTokens = [...new Set([generation, config].flatMap((file) => endTokensOf(file, architecture)))];
  return { modelType, architecture, endTokens };
}

function modelTypeOf(config: JsonFields): ModelType {
  const modelType = modelTypes.find((name) => name === config.get('model_type'));
  const remedy =
    otherTypes.get(config.get('model_type')) ??
    `martingale runs ${modelTypes.join(', ')}. Choose a checkpoint of these (Llama 3, SmolLM2, Qwen2.5, Qwen3, Gemma 3, LFM2).`;
  if (!modelType) throw config.unsupported('model_type', remedy);
  return modelType;
}

function refuseUnsupported(config: JsonFields, modelType: ModelType): void {
  if (config.get('quantization_config') !== undefined)
    throw config.unsupported(
      'quantization_config',
      'martingale reads float32, bfloat16 and float16. Choose the checkpoint that is not quantized.',
    );
  for (const [field, values, remedy] of fixed) {
    // Gemma's is hidden_activation.
    if (modelType === 'gemma3_text' && field === 'hidden_act') continue;
    const value = config.get(field);
    if (value !== undefined && !values.includes(value)) throw config.unsupported(field, remedy);
  }
  if (modelType !== 'gemma3_text' && modelType !== 'lfm2') refuseWindows(config);
}

/** `sliding_window` alone means nothing: published checkpoints have it with `use_sliding_window` false. */
function refuseWindows(config: JsonFields): void {
  const layerTypes = config.get('layer_types');
  if (layerTypes !== undefined) {
    if (Array.isArray(layerTypes) && layerTypes.every((type) => type === 'full_attention')) return;
    throw config.unsupported('layer_types', 'martingale runs layers of "full_attention" only.');
  }
  if (!config.flag('use_sliding_window', false) || config.get('sliding_window') === undefined) return;
  // The default of transformers.
  const fullLayers = config.get('max_window_layers') ?? 28;
  if (typeof fullLayers === 'number' && fullLayers >= config.count('num_hidden_layers', most.layers)) return;
  throw config.unsupported(
    'use_sliding_window',
    'martingale runs attention without windows. Set it to false if sequences stay shorter than sliding_window.',
  );
}

function architectureOf(config: JsonFields, modelType: ModelType): Architecture {
  const width = config.count('hidden_size', most.width);
  const heads = config.count('num_attention_heads', most.heads);
  const { keyValueHeads: usualHeads } =
    modelType === 'gemma3_text'
      ? gemma3Defaults
      : modelType === 'lfm2'
        ? lfm2Defaults
        : { keyValueHeads: heads };
  const keyValueHeads = config.count('num_key_value_heads', most.heads, usualHeads);
  const isDivided = (field: string, size: number, divisorField: string, divisor: number) => {
    if (size % divisor === 0) return;
    throw config.wrong(field, `a multiple of ${divisorField}, ${divisor}`, size);
  };
  isDivided('num_attention_heads', heads, 'num_key_value_heads', keyValueHeads);
  // The default of transformers' Qwen3Config is 128.
  const fallback = {
    ...{ llama: null, qwen2: null, qwen3: 128, lfm2: null },
    gemma3_text: gemma3Defaults.headWidth,
  }[modelType];
  const isDerived = fallback === null && config.get('head_dim') === undefined;
  if (isDerived) isDivided('hidden_size', width, 'num_attention_heads', heads);
  const headWidth = isDerived ? width / heads : config.count('head_dim', most.headWidth, fallback ?? 0);
  if (headWidth % 2 !== 0)
    throw badCheckpoint(
      `${config.path}: the width of a head, head_dim or hidden_size / num_attention_heads, is ${headWidth}. ` +
        'It must be even, because rotary positions turn pairs of elements.',
    );
  const layers = config.count('num_hidden_layers', most.layers);
  return {
    vocabularySize: config.count('vocab_size', most.vocabulary),
    width,
    layers,
    heads,
    keyValueHeads,
    headWidth,
    contextLength: config.count('max_position_embeddings', most.context),
    previousTokens: 0,
    ...(modelType === 'lfm2'
      ? lfm2Options(config, { layers, most: most.mlpWidth })
      : usualLayers(config, modelType, { width, layers })),
  };
}

function usualLayers(config: JsonFields, modelType: ModelType, sizes: { width: number; layers: number }) {
  const common = {
    mlpWidth: config.count('intermediate_size', most.mlpWidth),
    normEpsilon: config.number('rms_norm_eps', { least: 1e-12, most: 1 }),
    ...usualOptions,
  };
  if (modelType === 'gemma3_text') return { ...common, ...gemma3Options(config, sizes) };
  return {
    ...common,
    positions: readPositions(
      config.nested('rope_scaling') ?? config.nested('rope_parameters'),
      // The default of transformers.
      { file: config, field: 'rope_theta', fallback: 10_000 },
      ['default', 'llama3'],
    ),
    mlp: 'gated-silu',
    queryKeyNorm: modelType === 'qwen3',
    attentionBias: modelType === 'qwen2',
    tiedEmbeddings: config.flag('tie_word_embeddings', false),
  } satisfies Partial<Architecture>;
}

function endTokensOf(file: JsonFields | undefined, { vocabularySize }: Architecture): number[] {
  const tokens = file?.tokens('eos_token_id') ?? [];
  const outside = tokens.find((token) => token >= vocabularySize);
  if (file && outside !== undefined)
    throw file.wrong('eos_token_id', `below vocab_size, ${vocabularySize}`, outside);
  return tokens;
}
