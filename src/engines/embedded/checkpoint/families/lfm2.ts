import type { JsonFields } from '../../../../language/index.ts';
import { EngineError } from '../../../engine.ts';
import { type Architecture, kindOf, usualOptions } from '../../weights/architecture.ts';
import type { GgufField } from '../gguf/encode-header.ts';
import type { GgufFields } from '../gguf/fields.ts';
import { type Family, type GgufSizes, mostMlpWidth, silu } from './family.ts';
import {
  ggufPositions,
  keyValueHeadsByLayer,
  keyValueHeadsField,
  keyValueHeadsOf,
  layersOfType,
  readPositions,
} from './layer-settings.ts';

/** The defaults of transformers' Lfm2Config. */
const defaults = { keyValueHeads: 8, epsilon: 1e-5, theta: 1_000_000, taps: 3, multiple: 256 } as const;

const mostTaps = 64;

export const lfm2: Family = {
  modelType: 'lfm2',
  className: 'Lfm2ForCausalLM',
  tensorNames: 'lfm2',
  keyValueHeads: defaults.keyValueHeads,
  headWidth: null,
  fixed: [silu],
  options,
  gguf: {
    name: 'lfm2',
    partNames: {},
    // As the model itself does, llama.cpp names the norm of the last states after the embeddings.
    finalNorm: 'token_embd_norm',
    addedToNorms: 0,
    isInterleaved: false,
    config: ggufConfig,
    fields: ggufFields,
  },
};

function options(config: JsonFields, { layers }: { layers: number }) {
  if (config.flag('conv_bias', false))
    throw config.unsupported('conv_bias', 'martingale runs convolutions without biases.');
  const tied = config.flag('tie_word_embeddings', true);
  return {
    ...usualOptions,
    positions: readPositions(
      config.nested('rope_scaling') ?? config.nested('rope_parameters'),
      { file: config, field: 'rope_theta', fallback: defaults.theta },
      ['default'],
    ),
    mlp: 'gated-silu',
    mlpWidth: mlpWidthOf(config),
    normEpsilon: config.number('norm_eps', { least: 1e-12, most: 1, fallback: defaults.epsilon }),
    convolutions: {
      layers: convolutionsOf(config, layers),
      taps: config.count('conv_L_cache', mostTaps, defaults.taps),
    },
    queryKeyNorm: true,
    attentionBias: false,
    tiedEmbeddings: config.flag('tie_embedding', tied),
  } satisfies ReturnType<Family['options']>;
}

/**
 * The width of the MLP. Unless `block_auto_adjust_ff_dim` is false, a configuration gives the width for an MLP without a
 * gate. With a gate and as many weights it has two thirds of that width, rounded up to `block_multiple_of`.
 */
function mlpWidthOf(config: JsonFields): number {
  const most = mostMlpWidth;
  const field = config.get('block_ff_dim') === undefined ? 'intermediate_size' : 'block_ff_dim';
  const given = config.count(field, most);
  if (!config.flag('block_auto_adjust_ff_dim', true)) return given;
  const factor = config.number('block_ffn_dim_multiplier', { least: 1e-3, most: 1e3, fallback: 1 });
  const multiple = config.count('block_multiple_of', most, defaults.multiple);
  const width = multiple * Math.ceil(Math.trunc(factor * Math.trunc((2 * given) / 3)) / multiple);
  if (width >= 1 && width <= most) return width;
  throw config.unsupported(
    field,
    `With block_ffn_dim_multiplier and block_multiple_of it makes an MLP of width ${width}, which must be 1 to ${most}.`,
  );
}

/** Whether each layer is a convolution: by `layer_types`, or in early configurations all layers but `full_attn_idxs`. */
function convolutionsOf(config: JsonFields, layers: number): boolean[] {
  const types = layersOfType(config, ['conv', 'full_attention'], layers);
  if (types) return types;
  const attention = config.get('full_attn_idxs');
  if (attention === undefined) return Array.from({ length: layers }, () => false);
  if (!Array.isArray(attention) || !attention.every((layer) => Number.isSafeInteger(layer)))
    throw config.wrong('full_attn_idxs', 'a list of layers');
  return Array.from({ length: layers }, (_, layer) => !attention.includes(layer));
}

const name = (field: string) => `lfm2.${field}`;

function ggufConfig(fields: GgufFields, sizes: GgufSizes): object {
  if (fields.flag(name('attention.causal')) === false)
    throw fields.unsupported(
      name('attention.causal'),
      'martingale runs models that see earlier tokens only.',
    );
  const heads = keyValueHeadsByLayer(fields, 'lfm2');
  return {
    torch_dtype: 'bfloat16',
    hidden_act: 'silu',
    ...ggufPositions(fields, 'lfm2', sizes),
    num_key_value_heads: keyValueHeadsOf(fields, 'lfm2'),
    norm_eps: fields.number(name('attention.layer_norm_rms_epsilon')),
    // The file has the width that its tensors have.
    block_auto_adjust_ff_dim: false,
    conv_bias: false,
    conv_L_cache: fields.number(name('shortconv.l_cache')),
    layer_types: heads?.map((count) => (count === 0 ? 'conv' : 'full_attention')),
  };
}

function ggufFields(architecture: Architecture): Record<string, GgufField> {
  const { layers, convolutions } = architecture;
  if (!convolutions) return {};
  if (convolutions.taps < 2)
    throw new EngineError(
      'checkpoint_unsupported',
      `llama.cpp does not run this LFM2: conv_L_cache is ${convolutions.taps}, and llama.cpp needs 2 or more. Export with --merged instead.`,
    );
  const heads = Array.from({ length: layers }, (_, layer) =>
    kindOf(architecture, layer) === 'convolution' ? 0 : architecture.keyValueHeads,
  );
  return {
    [keyValueHeadsField]: { type: 'int32s', value: heads },
    'shortconv.l_cache': { type: 'uint32', value: convolutions.taps },
  };
}
