import type { JsonFields } from '../../../../language/index.ts';
import { EngineError } from '../../../engine.ts';
import { type Architecture, unrotated } from '../../weights/architecture.ts';
import { type Family, mostLayers, silu } from './family.ts';
import { ggufPositions, layersOfType, mostPositions } from './layer-settings.ts';
import { llama, llamaOptions } from './llama.ts';

/** The defaults of transformers' SmolLM3Config. llama.cpp knows no other interval. */
const defaults = { keyValueHeads: 4, interval: 4 } as const;

/** A Llama in which some layers do not rotate queries and keys. */
export const smollm3: Family = {
  modelType: 'smollm3',
  className: 'SmolLM3ForCausalLM',
  tensorNames: 'llama',
  keyValueHeads: defaults.keyValueHeads,
  headWidth: null,
  fixed: [silu, ['use_sliding_window', [false], 'martingale runs SmolLM3 without windows.']],
  options(config, { layers }) {
    const types = layersOfType(config, ['sliding_attention', 'full_attention'], layers);
    if (types?.includes(true))
      throw config.unsupported('layer_types', 'martingale runs SmolLM3 with "full_attention" only.');
    const own = unrotatedLayers(config, layers);
    return {
      ...llamaOptions(config),
      tiedEmbeddings: config.flag('tie_word_embeddings', true),
      local: own.includes(true) ? { layers: own, window: mostPositions, positions: unrotated } : null,
    };
  },
  gguf: {
    ...llama.gguf,
    name: 'smollm3',
    config: (fields, sizes) => ({
      torch_dtype: 'bfloat16',
      hidden_act: 'silu',
      num_key_value_heads: fields.number('smollm3.attention.head_count_kv'),
      ...ggufPositions(fields, 'smollm3', sizes),
    }),
    fields: refuseOtherLayers,
  },
};

/** Whether each layer rotates nothing: by `no_rope_layers`, in which 0 means that, or else each fourth. */
function unrotatedLayers(config: JsonFields, layers: number): boolean[] {
  if (config.get('no_rope_layers') === undefined) {
    const interval = config.count('no_rope_layer_interval', mostLayers, defaults.interval);
    return Array.from({ length: layers }, (_, layer) => (layer + 1) % interval === 0);
  }
  const given = config.list('no_rope_layers');
  if (given.length !== layers || !given.every((value) => value === 0 || value === 1))
    throw config.wrong(
      'no_rope_layers',
      `a list with 0 or 1 for each of ${layers} layers (num_hidden_layers)`,
    );
  return given.map((value) => value === 0);
}

function refuseOtherLayers({ layers, local }: Architecture): Record<string, never> {
  for (let layer = 0; layer < layers; layer++)
    if ((local?.layers[layer] ?? false) !== ((layer + 1) % defaults.interval === 0))
      throw new EngineError(
        'checkpoint_unsupported',
        `llama.cpp does not run this SmolLM3: there, each fourth layer does not rotate, but by no_rope_layers layer ${layer} differs. Export with --merged instead.`,
      );
  return {};
}
