import { EngineError } from '../../../engine.ts';
import type { Architecture } from '../../weights/architecture.ts';
import type { GgufField } from './encode-header.ts';
import type { GgufFields } from './fields.ts';

/** As `gguf/names.ts` and llama.cpp call it. */
export const gemma3 = 'gemma3';

const name = (field: string) => `${gemma3}.${field}`;

/** llama.cpp's values for fields that a file does not have. */
const defaults = { theta: 1_000_000, localTheta: 10_000, pattern: 6 } as const;
/** llama.cpp scales the scores of Gemma 3 27B by another width, and knows that model by its layers. */
const layersOf27B = 62;

/**
 * What a GGUF file says of a Gemma 3 beside its sizes, as `config.json` says it. Files of Ollama have other names for the
 * rotary bases.
 */
export function gemma3Config(
  fields: GgufFields,
  { width, heads, headWidth }: { width: number; heads: number; headWidth: number },
): object {
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
    layer_types: Array.from({ length: Math.min(layers, 1024) }, (_, layer) =>
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

/**
 * The fields of a GGUF file that only Gemma 3 has.
 * @throws EngineError (`checkpoint_unsupported`) for what llama.cpp computes otherwise
 */
export function gemma3Fields({
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
