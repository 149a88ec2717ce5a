import type { JsonFields } from '../../../../language/index.ts';
import { usualOptions } from '../../weights/architecture.ts';
import { type Family, mostLayers, readMlpAndNorms, silu } from './family.ts';
import { ggufPositions, readPositions } from './layer-settings.ts';

/** `qwen2` has biases of queries, keys and values; `qwen3` norms of queries and keys. Otherwise they are alike. */
function likeLlama({
  name,
  className,
  headWidth = null,
}: {
  name: 'llama' | 'qwen2' | 'qwen3';
  className: string;
  headWidth?: number | null;
}): Family {
  return {
    modelType: name,
    className,
    tensorNames: 'llama',
    keyValueHeads: null,
    headWidth,
    fixed: [silu],
    options(config) {
      refuseWindows(config);
      return {
        ...llamaOptions(config),
        queryKeyNorm: name === 'qwen3',
        attentionBias: name === 'qwen2',
      };
    },
    gguf: {
      name,
      partNames: {},
      finalNorm: 'output_norm',
      addedToNorms: 0,
      isInterleaved: name === 'llama',
      config: (fields, sizes) => ({
        torch_dtype: 'float16',
        hidden_act: 'silu',
        num_key_value_heads: fields.number(`${name}.attention.head_count_kv`),
        ...ggufPositions(fields, name, sizes),
      }),
      fields: () => ({}),
    },
  };
}

export const llama = likeLlama({ name: 'llama', className: 'LlamaForCausalLM' });
export const qwen2 = likeLlama({ name: 'qwen2', className: 'Qwen2ForCausalLM' });
/** The width is the default of transformers' Qwen3Config. */
export const qwen3 = likeLlama({ name: 'qwen3', className: 'Qwen3ForCausalLM', headWidth: 128 });

/** What a Llama without windows says. Other families that are alike change some of it. */
export const llamaOptions = (config: JsonFields, mlpWidthField?: string) =>
  ({
    ...readMlpAndNorms(config, mlpWidthField),
    ...usualOptions,
    positions: readPositions(
      config.nested('rope_scaling') ?? config.nested('rope_parameters'),
      // The default of transformers.
      { file: config, field: 'rope_theta', fallback: 10_000 },
      ['default', 'llama3'],
    ),
    mlp: 'gated-silu',
    queryKeyNorm: false,
    attentionBias: false,
    tiedEmbeddings: config.flag('tie_word_embeddings', false),
  }) satisfies ReturnType<Family['options']>;

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
  if (typeof fullLayers === 'number' && fullLayers >= config.count('num_hidden_layers', mostLayers)) return;
  throw config.unsupported(
    'use_sliding_window',
    'martingale runs attention without windows. Set it to false if sequences stay shorter than sliding_window.',
  );
}
