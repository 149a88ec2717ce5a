import type { JsonFields } from '../../../../language/index.ts';
import { EngineError } from '../../../engine.ts';
import { type Architecture, usualOptions } from '../../weights/architecture.ts';
import { fromFloat32, toFloat32 } from '../../weights/number-formats.ts';
import type { GgufField } from '../gguf/encode-header.ts';
import type { GgufFields } from '../gguf/fields.ts';
import { type Family, type FixedField, type GgufSizes, mostLayers, readMlpAndNorms } from './family.ts';
import { layersOfType, mostPositions, readPositions } from './layer-settings.ts';

/** The defaults of transformers' Gemma3TextConfig, some of which are llama.cpp's too. */
const defaults = {
  keyValueHeads: 4,
  headWidth: 256,
  scaledWidth: 256,
  window: 4096,
  pattern: 6,
  theta: 1_000_000,
  localTheta: 10_000,
} as const;

const fixed: readonly FixedField[] = [
  [
    'hidden_activation',
    ['gelu_pytorch_tanh'],
    'martingale runs MLPs of Gemma 3 with "gelu_pytorch_tanh" only.',
  ],
  ['attn_logit_softcapping', [], 'martingale runs attention without a cap of its scores.'],
  ['final_logit_softcapping', [], 'martingale runs heads without a cap of their logits.'],
  ['use_bidirectional_attention', [false], 'martingale runs attention to earlier tokens only.'],
];

/** Gemma 3's text models. */
export const gemma3: Family = {
  modelType: 'gemma3_text',
  className: 'Gemma3ForCausalLM',
  tensorNames: 'llama',
  keyValueHeads: defaults.keyValueHeads,
  headWidth: defaults.headWidth,
  fixed,
  options,
  gguf: {
    name: 'gemma3',
    // As attention's output has a norm here, Hugging Face has another name for the one before the MLP.
    partNames: {
      post_attention_layernorm: 'post_attention_norm',
      pre_feedforward_layernorm: 'ffn_norm',
      post_feedforward_layernorm: 'post_ffw_norm',
    },
    finalNorm: 'output_norm',
    // Files store the gains of norms, the weights plus 1.
    addedToNorms: 1,
    isInterleaved: false,
    config: ggufConfig,
    fields: ggufFields,
  },
};

function options(config: JsonFields, { width, layers }: { width: number; layers: number }) {
  const rope = config.nested('rope_parameters');
  const scaledWidth = config.number('query_pre_attn_scalar', {
    least: 1e-6,
    most: 1e6,
    fallback: defaults.scaledWidth,
  });
  return {
    ...readMlpAndNorms(config),
    ...usualOptions,
    positions: readPositions(
      rope?.nested('full_attention') ?? config.nested('rope_scaling'),
      { file: config, field: 'rope_theta', fallback: defaults.theta },
      ['default', 'linear'],
    ),
    mlp: 'gated-gelu',
    normOffset: 1,
    outputNorms: true,
    embeddingScale: embeddingScaleOf(config, width),
    attentionScale: 1 / Math.sqrt(scaledWidth),
    local: {
      layers: localLayersOf(config, layers),
      window: config.count('sliding_window', mostPositions, defaults.window),
      positions: readPositions(
        rope?.nested('sliding_attention'),
        { file: config, field: 'rope_local_base_freq', fallback: defaults.localTheta },
        ['default'],
      ),
    },
    queryKeyNorm: true,
    attentionBias: false,
    tiedEmbeddings: config.flag('tie_word_embeddings', true),
  } satisfies ReturnType<Family['options']>;
}

const formats = { float32: 'F32', bfloat16: 'BF16', float16: 'F16' } as const;

/**
 * The root of the width, rounded to the model's number format, as transformers does. Gemma is trained so, in bfloat16:
 * gemma.cpp rounds the factor to it in all formats. llama.cpp does not round it, which changes it by up to 0.2 %.
 */
function embeddingScaleOf(config: JsonFields, width: number): number {
  const name = config.get('dtype') ?? config.get('torch_dtype');
  const format = Object.entries(formats).find(([known]) => known === name)?.[1] ?? 'BF16';
  const rounded = new Float32Array(1);
  toFloat32(format, fromFloat32(format, Float32Array.of(Math.sqrt(width))), rounded);
  return rounded[0] as number;
}

/** Whether each layer has local attention: by `layer_types`, or in early configurations all but each sixth. */
function localLayersOf(config: JsonFields, layers: number): boolean[] {
  const types = layersOfType(config, ['sliding_attention', 'full_attention'], layers);
  if (types) return types;
  const pattern = config.count('sliding_window_pattern', mostPositions, defaults.pattern);
  return Array.from({ length: layers }, (_, layer) => (layer + 1) % pattern !== 0);
}

const name = (field: string) => `gemma3.${field}`;

/** llama.cpp scales the scores of Gemma 3 27B by another width, and knows that model by its layers. */
const layersOf27B = 62;

/** Files of Ollama have other names for the rotary bases. */
function ggufConfig(fields: GgufFields, { width, heads, headWidth }: GgufSizes): object {
  const number = (field: string) => fields.number(name(field));
  const layers = number('block_count') ?? 0;
  const window = number('attention.sliding_window') ?? 0;
  const isLocal = window > 0 ? localLayers(fields) : () => false;
  const scaling = fields.text(name('rope.scaling.type')) ?? 'none';
  if (scaling !== 'none' && scaling !== 'linear')
    throw fields.unsupported(
      name('rope.scaling.type'),
      'martingale runs rotary positions of Gemma 3 without scaling, or with linear scaling.',
    );
  return {
    // In float16 the states of Gemma overflow.
    torch_dtype: 'bfloat16',
    num_key_value_heads: number('attention.head_count_kv'),
    hidden_activation: 'gelu_pytorch_tanh',
    query_pre_attn_scalar: layers === layersOf27B ? width / heads : headWidth,
    attn_logit_softcapping: number('attn_logit_softcapping'),
    // llama.cpp caps logits only without windows. Files of Ollama have the field, though what was published has none.
    final_logit_softcapping: window > 0 ? null : number('final_logit_softcapping'),
    rope_theta: number('rope.freq_base') ?? number('rope.global.freq_base') ?? defaults.theta,
    rope_local_base_freq:
      number('rope.freq_base_swa') ?? number('rope.local.freq_base') ?? defaults.localTheta,
    rope_scaling:
      scaling === 'linear' ? { rope_type: 'linear', factor: number('rope.scaling.factor') } : null,
    sliding_window: window > 0 ? window : undefined,
    layer_types: Array.from({ length: Math.min(layers, mostLayers) }, (_, layer) =>
      isLocal(layer) ? 'sliding_attention' : 'full_attention',
    ),
  };
}

/** A number n, by which each nth layer sees all positions, or a list with a value for each layer. */
function localLayers(fields: GgufFields): (layer: number) => boolean {
  const field = name('attention.sliding_window_pattern');
  const given = fields.get(field);
  if (Array.isArray(given)) return (layer) => given[layer] === true;
  const pattern = fields.number(field) ?? defaults.pattern;
  return (layer) => (layer + 1) % pattern !== 0;
}

function ggufFields({
  width,
  heads,
  headWidth,
  layers,
  attentionScale,
  local,
  positions,
}: Architecture): Record<string, GgufField> {
  if (!local || positions === 'learned') return {};
  const scaledWidth = layers === layersOf27B ? width / heads : headWidth;
  if (Math.abs((attentionScale ?? 0) * Math.sqrt(scaledWidth) - 1) > 1e-6)
    throw unsupported(`query_pre_attn_scalar must be ${scaledWidth} there`);
  const isRepeated = (pattern: number) =>
    local.layers.every((isLocal, layer) => isLocal === ((layer + 1) % pattern !== 0));
  const patterns = [defaults.pattern, ...Array.from({ length: layers }, (_, index) => index + 1)];
  const pattern = patterns.find(isRepeated);
  if (pattern === undefined) throw unsupported('there, one layer in every n must see all positions');
  const { scaling } = positions;
  return {
    'attention.sliding_window': { type: 'uint32', value: local.window },
    'attention.sliding_window_pattern': { type: 'uint32', value: pattern },
    'rope.freq_base_swa': { type: 'float32', value: local.positions.theta },
    ...(typeof scaling === 'number'
      ? {
          'rope.scaling.type': { type: 'string', value: 'linear' },
          'rope.scaling.factor': { type: 'float32', value: scaling },
        }
      : {}),
  };
}

const unsupported = (what: string) =>
  new EngineError(
    'checkpoint_unsupported',
    `llama.cpp does not run this Gemma 3: ${what}. Export with --merged instead.`,
  );
