import { JsonFields, type ModelFiles } from '../../../language/index.ts';
import type { Architecture } from '../weights/architecture.ts';
import { badCheckpoint } from './bad-checkpoint.ts';
import { families, familyNames } from './families/families.ts';
import { type Family, type FixedField, mostLayers } from './families/family.ts';
import { mostPositions } from './families/layer-settings.ts';

/**
 * The largest sizes of a configuration: a few times larger than in published models, so that a wrong number is refused
 * before it takes memory. A size that the tensors do not have is refused when they are read.
 */
const most = {
  layers: mostLayers,
  heads: 4096,
  headWidth: 4096,
  width: 1 << 17,
  vocabulary: 1 << 22,
  context: mostPositions,
} as const;

export interface CheckpointConfig {
  family: Family;
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
  [
    'gpt_oss',
    'martingale runs no models with experts itself. Serve gpt-oss from a training server (--engine tinker).',
  ],
  ['mixtral', 'martingale runs Mistral without experts. Choose a dense one (mistral, ministral).'],
  ['mistral3', 'martingale runs Mistral without images. Choose a model of text (mistral, ministral).'],
  ['ministral3', 'martingale runs no Ministral 3. Choose an earlier model of text (mistral, ministral).'],
  ['granitemoe', 'martingale runs Granite without experts. Choose a dense one (granite).'],
  ['granitemoeshared', 'martingale runs Granite without experts. Choose a dense one (granite).'],
]);

/** Of all families. */
const fixed: readonly FixedField[] = [
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
  const family = familyOf(config);
  refuseUnsupported(config, family);
  const architecture = architectureOf(config, family);
  const generation = JsonFields.find(from, 'generation_config.json');
  const endTokens = [...new Set([generation, config].flatMap((file) => endTokensOf(file, architecture)))];
  return { family, architecture, endTokens };
}

function familyOf(config: JsonFields): Family {
  const name = config.get('model_type');
  const family = families.find(({ modelType }) => modelType === name);
  if (family) return family;
  throw config.unsupported(
    'model_type',
    otherTypes.get(name) ??
      `martingale runs ${[...new Set(families.map(({ modelType }) => modelType))].join(', ')}. Choose a checkpoint of these (${familyNames}).`,
  );
}

function refuseUnsupported(config: JsonFields, family: Family): void {
  if (config.get('quantization_config') !== undefined)
    throw config.unsupported(
      'quantization_config',
      'martingale reads float32, bfloat16 and float16. Choose the checkpoint that is not quantized.',
    );
  for (const [field, values, remedy] of [...family.fixed, ...fixed]) {
    const value = config.get(field);
    if (value !== undefined && !values.includes(value)) throw config.unsupported(field, remedy);
  }
}

function architectureOf(config: JsonFields, family: Family): Architecture {
  const width = config.count('hidden_size', most.width);
  const heads = config.count('num_attention_heads', most.heads);
  const keyValueHeads = config.count('num_key_value_heads', most.heads, family.keyValueHeads ?? heads);
  const isDivided = (field: string, size: number, divisorField: string, divisor: number) => {
    if (size % divisor === 0) return;
    throw config.wrong(field, `a multiple of ${divisorField}, ${divisor}`, size);
  };
  isDivided('num_attention_heads', heads, 'num_key_value_heads', keyValueHeads);
  const isDerived = family.headWidth === null && config.get('head_dim') === undefined;
  if (isDerived) isDivided('hidden_size', width, 'num_attention_heads', heads);
  const headWidth = isDerived
    ? width / heads
    : config.count('head_dim', most.headWidth, family.headWidth ?? 0);
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
    ...family.options(config, { width, layers }),
    tensorNames: family.tensorNames,
  };
}

function endTokensOf(file: JsonFields | undefined, { vocabularySize }: Architecture): number[] {
  const tokens = file?.tokens('eos_token_id') ?? [];
  const outside = tokens.find((token) => token >= vocabularySize);
  if (file && outside !== undefined)
    throw file.wrong('eos_token_id', `below vocab_size, ${vocabularySize}`, outside);
  return tokens;
}
