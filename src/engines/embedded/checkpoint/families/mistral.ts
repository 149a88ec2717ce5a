import type { JsonFields } from '../../../../language/index.ts';
import { EngineError } from '../../../engine.ts';
import type { Architecture, RotaryPositions } from '../../weights/architecture.ts';
import { type Family, silu } from './family.ts';
import { layersOfType, mostPositions } from './layer-settings.ts';
import { llama, llamaOptions } from './llama.ts';

/** The defaults of transformers' MistralConfig and MinistralConfig. */
const defaults = { keyValueHeads: 8, window: 4096 } as const;

/**
 * A Llama whose layers may see the latest positions only: of `mistral` all or none, of `ministral` those that
 * `layer_types` names. llama.cpp calls both `llama`.
 */
function likeMistral(modelType: 'mistral' | 'ministral', className: string): Family {
  return {
    modelType,
    className,
    tensorNames: 'llama',
    keyValueHeads: defaults.keyValueHeads,
    headWidth: null,
    fixed: [silu],
    options(config, sizes) {
      const options = llamaOptions(config);
      return { ...options, local: localOf(config, { modelType, ...sizes, positions: options.positions }) };
    },
    gguf: {
      ...llama.gguf,
      fields({ local }) {
        if (!local) return {};
        throw new EngineError(
          'checkpoint_unsupported',
          `llama.cpp runs Mistral without windows, but this one has sliding_window ${local.window}. Export with --merged instead.`,
        );
      },
    },
  };
}

export const mistral = likeMistral('mistral', 'MistralForCausalLM');
export const ministral = likeMistral('ministral', 'MinistralForCausalLM');

/** The layers with windows; null where no window is shorter than the context. Only null means no window: the default is one. */
function localOf(
  config: JsonFields,
  { modelType, layers, positions }: { modelType: string; layers: number; positions: RotaryPositions },
): Architecture['local'] {
  const isGlobal = config.fields.sliding_window === null;
  const window = isGlobal ? mostPositions : config.count('sliding_window', mostPositions, defaults.window);
  const types = layersOfType(config, ['sliding_attention', 'full_attention'], layers);
  if (modelType === 'mistral' && types?.some((isLocal) => isLocal === isGlobal))
    throw config.unsupported(
      'layer_types',
      'martingale runs layers of mistral that are all alike, as sliding_window says. If they are not, set model_type to "ministral".',
    );
  const own = types ?? Array.from({ length: layers }, () => !isGlobal);
  const isShort = window < config.count('max_position_embeddings', mostPositions);
  return isShort && own.includes(true) ? { layers: own, window, positions } : null;
}
