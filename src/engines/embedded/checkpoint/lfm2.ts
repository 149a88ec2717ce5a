import type { JsonFields } from '../../../language/index.ts';
import { type Architecture, usualOptions } from '../weights/architecture.ts';
import { layersOfType, readPositions } from './layer-settings.ts';

/** The defaults of transformers' Lfm2Config. */
export const lfm2Defaults = { keyValueHeads: 8 } as const;
const defaults = { epsilon: 1e-5, theta: 1_000_000, taps: 3, multiple: 256 } as const;

const mostTaps = 64;

/**
 * What the `config.json` of an LFM2 says beside its sizes.
 * @param most Of the width of the MLP.
 * @throws LanguageError (`checkpoint_unsupported`, `bad_checkpoint`) that names file, field and value.
 */
export function lfm2Options(config: JsonFields, { layers, most }: { layers: number; most: number }) {
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
    mlpWidth: mlpWidthOf(config, most),
    normEpsilon: config.number('norm_eps', { least: 1e-12, most: 1, fallback: defaults.epsilon }),
    convolutions: {
      layers: convolutionsOf(config, layers),
      taps: config.count('conv_L_cache', mostTaps, defaults.taps),
    },
    tensorNames: 'lfm2',
    queryKeyNorm: true,
    attentionBias: false,
    tiedEmbeddings: config.flag('tie_embedding', tied),
  } satisfies Partial<Architecture>;
}

/**
 * The width of the MLP. Unless `block_auto_adjust_ff_dim` is false, a configuration gives the width for an MLP without a
 * gate. With a gate and as many weights it has two thirds of that width, rounded up to `block_multiple_of`.
 */
function mlpWidthOf(config: JsonFields, most: number): number {
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
