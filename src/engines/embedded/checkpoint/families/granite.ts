import type { JsonFields } from '../../../../language/index.ts';
import type { Architecture } from '../../weights/architecture.ts';
import type { GgufField } from '../gguf/encode-header.ts';
import type { GgufFields } from '../gguf/fields.ts';
import { type Family, type GgufSizes, silu } from './family.ts';
import {
  ggufPositions,
  keyValueHeadsByLayer,
  keyValueHeadsField,
  keyValueHeadsOf,
} from './layer-settings.ts';
import { llamaOptions } from './llama.ts';

/** A Llama whose embeddings, scores, added states and logits have factors. */
function graniteOptions(config: JsonFields, mlpWidthField?: string) {
  const factor = (field: string) => config.number(field, { least: 1e-6, most: 1e6, fallback: 1 });
  return {
    ...llamaOptions(config, mlpWidthField),
    embeddingScale: factor('embedding_multiplier'),
    attentionScale: factor('attention_multiplier'),
    residualScale: factor('residual_multiplier'),
    logitScale: 1 / factor('logits_scaling'),
  } satisfies ReturnType<Family['options']>;
}

export const granite: Family = {
  modelType: 'granite',
  className: 'GraniteForCausalLM',
  tensorNames: 'llama',
  keyValueHeads: null,
  headWidth: null,
  fixed: [silu],
  options: (config) => graniteOptions(config),
  gguf: {
    name: 'granite',
    partNames: {},
    finalNorm: 'output_norm',
    addedToNorms: 0,
    isInterleaved: true,
    config: (fields, sizes) => ggufConfig('granite', fields, sizes),
    fields: ggufFields,
  },
};

/** Early GGUF files of Granite 4.0 without experts have the name of those with state space layers. They are a `granite` too. */
export const graniteHybridFile: Family = {
  ...granite,
  gguf: {
    ...granite.gguf,
    name: 'granitehybrid',
    config: (fields, sizes) => ggufConfig('granitehybrid', fields, sizes),
  },
};

const dense =
  'martingale runs Granite 4.0 without experts and state space layers: 350M and 1B, not the "h" models.';

/** The models of Granite 4.0 with attention alone, whose gate and `up` are one matrix. GGUF files have them as `granite`. */
export const graniteHybrid: Family = {
  ...granite,
  modelType: 'granitemoehybrid',
  className: 'GraniteMoeHybridForCausalLM',
  tensorNames: 'granite-hybrid',
  options(config, { layers }) {
    // The default of transformers has experts.
    if (config.get('num_local_experts') !== 0) throw config.unsupported('num_local_experts', dense);
    const field = config.get('layer_types') === undefined ? 'layers_block_type' : 'layer_types';
    const types = config.get(field);
    // transformers 4 calls it "attention".
    const isAttention = (type: unknown) => type === 'attention' || type === 'full_attention';
    if (!Array.isArray(types) || !types.every(isAttention)) throw config.unsupported(field, dense);
    if (types.length !== layers) throw config.wrong(field, `a list of ${layers} layers (num_hidden_layers)`);
    config.expect(
      'position_embedding_type',
      'rope',
      'martingale runs Granite 4.0 with rotary positions, "rope", as 350M and 1B have.',
    );
    return { ...graniteOptions(config, 'shared_intermediate_size'), joinedGate: true };
  },
};

function ggufConfig(name: string, fields: GgufFields, sizes: GgufSizes): object {
  const number = (field: string) => fields.number(`${name}.${field}`);
  const switchField = `${name}.rope.scaling.finetuned`;
  if (fields.flag(switchField) === false)
    throw fields.unsupported(switchField, 'martingale runs Granite with rotary positions.');
  if (keyValueHeadsByLayer(fields, name)?.includes(0))
    throw fields.unsupported(`${name}.${keyValueHeadsField}`, dense);
  return {
    torch_dtype: 'bfloat16',
    hidden_act: 'silu',
    num_key_value_heads: keyValueHeadsOf(fields, name),
    ...ggufPositions(fields, name, sizes),
    // 0 is none, as for llama.cpp.
    embedding_multiplier: number('embedding_scale') || 1,
    attention_multiplier: number('attention.scale') || 1 / Math.sqrt(sizes.headWidth),
    residual_multiplier: number('residual_scale') || 1,
    logits_scaling: number('logit_scale') || 1,
  };
}

function ggufFields({
  embeddingScale,
  attentionScale,
  residualScale,
  logitScale,
}: Architecture): Record<string, GgufField> {
  const factor = (value: number): GgufField => ({ type: 'float32', value });
  return {
    embedding_scale: factor(embeddingScale),
    'attention.scale': factor(attentionScale ?? 1),
    residual_scale: factor(residualScale),
    logit_scale: factor(1 / logitScale),
  };
}
