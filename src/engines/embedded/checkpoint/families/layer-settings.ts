import type { JsonFields } from '../../../../language/index.ts';
import { largestOf } from '../../../../util/extremes.ts';
import type { RotaryPositions, RotaryScaling } from '../../weights/architecture.ts';
import type { GgufFields } from '../gguf/fields.ts';
import { ropeFactors } from '../gguf/header.ts';
import { rotaryFrequencies } from '../rotary-tables.ts';
import type { GgufSizes } from './family.ts';

/**
 * Whether each layer is of the first kind of two, by `layer_types`; undefined if the configuration has no such list.
 * @throws LanguageError for another kind, or another number of layers than `num_hidden_layers`
 */
export function layersOfType(
  config: JsonFields,
  [first, second]: readonly [first: string, second: string],
  layers: number,
): boolean[] | undefined {
  if (config.get('layer_types') === undefined) return undefined;
  const types = config.list('layer_types');
  if (!types.every((type) => type === first || type === second))
    throw config.unsupported('layer_types', `martingale runs layers of "${first}" and "${second}".`);
  if (types.length !== layers)
    throw config.wrong('layer_types', `a list of ${layers} layers (num_hidden_layers)`);
  return types.map((type) => type === first);
}

/** Most positions of a context. */
export const mostPositions = 1 << 27;

/** Kinds of scaling by their names in `config.json`. */
type RotaryKind = 'default' | 'llama3' | 'linear';

/**
 * Reads rotary settings.
 *
 * @param rope The object that may have a base, `rope_theta`, and a scaling.
 * @param base The base if that object has none.
 */
export function readPositions(
  rope: JsonFields | undefined,
  base: { file: JsonFields; field: string; fallback: number },
  kinds: readonly RotaryKind[],
): RotaryPositions {
  const range = { least: 1, most: 1e15, fallback: base.fallback };
  const theta =
    rope?.get('rope_theta') === undefined
      ? base.file.number(base.field, range)
      : rope.number('rope_theta', range);
  if (!rope) return { theta, scaling: null };
  const partial = rope.get('partial_rotary_factor');
  if (partial !== undefined && partial !== 1)
    throw rope.unsupported('partial_rotary_factor', 'martingale rotates whole heads only.');
  // Early configurations call it `type`.
  const typeField =
    rope.get('rope_type') === undefined && rope.get('type') !== undefined ? 'type' : 'rope_type';
  const given = rope.get(typeField) ?? 'default';
  switch (kinds.find((kind) => kind === given)) {
    case 'default':
      return { theta, scaling: null };
    case 'llama3':
      return { theta, scaling: scalingOf(rope) };
    case 'linear':
      return { theta, scaling: rope.number('factor', { least: 1, most: 1e6 }) };
    default:
      throw rope.unsupported(
        typeField,
        `martingale runs ${kinds.map((kind) => `"${kind}"`).join(' and ')}. Choose another checkpoint.`,
      );
  }
}

function scalingOf(rope: JsonFields): RotaryScaling {
  const scaling = {
    factor: rope.number('factor', { least: 1, most: 1e6 }),
    lowFrequencyFactor: rope.number('low_freq_factor', { least: 1e-6, most: 1e6 }),
    highFrequencyFactor: rope.number('high_freq_factor', { least: 1e-6, most: 1e6 }),
    originalContextLength: rope.count('original_max_position_embeddings', mostPositions),
  };
  if (scaling.highFrequencyFactor > scaling.lowFrequencyFactor) return scaling;
  throw rope.wrong('high_freq_factor', `above low_freq_factor, ${scaling.lowFrequencyFactor}`);
}

/**
 * What a GGUF file says of rotary positions, as `config.json` says it, where all layers see all earlier positions.
 * @throws EngineError `checkpoint_unsupported`
 */
export function ggufPositions(
  fields: GgufFields,
  family: string,
  { factors, headWidth }: Pick<GgufSizes, 'factors' | 'headWidth'>,
): object {
  const window = `${family}.attention.sliding_window`;
  if ((fields.number(window) ?? 0) > 0)
    throw fields.unsupported(window, 'martingale runs attention without windows.');
  const theta = fields.number(`${family}.rope.freq_base`) ?? 10_000;
  return { rope_theta: theta, rope_scaling: ggufScaling(fields, family, { factors, theta, headWidth }) };
}

/** A GGUF file's heads of keys and values: one number, or a list with 0 for each layer without attention. */
export const keyValueHeadsField = 'attention.head_count_kv';

/** @returns null if all layers have as many */
export function keyValueHeadsByLayer(fields: GgufFields, family: string): readonly number[] | null {
  const name = `${family}.${keyValueHeadsField}`;
  if (!Array.isArray(fields.get(name))) return null;
  const heads = fields.numbers(name);
  const most = largestOf(heads, 0);
  if (heads.every((count) => count === 0 || count === most)) return heads;
  throw fields.unsupported(
    name,
    'martingale runs layers of attention that all have the same number of heads.',
  );
}

/** The heads of keys and values of the layers with attention. */
export const keyValueHeadsOf = (fields: GgufFields, family: string): number | undefined => {
  const heads = keyValueHeadsByLayer(fields, family);
  return heads ? largestOf(heads, 0) || undefined : fields.number(`${family}.${keyValueHeadsField}`);
};

/** The numbers of all published models of Llama 3; their factors differ. */
const llama3 = { low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 };

/** Llama 3's scaling. A file has only the resulting factors, so this finds the settings that give the same factors. */
function ggufScaling(
  fields: GgufFields,
  family: string,
  { factors, theta, headWidth }: Pick<GgufSizes, 'factors' | 'headWidth'> & { theta: number },
): object | null {
  const type = fields.text(`${family}.rope.scaling.type`) ?? 'none';
  if (type !== 'none')
    throw fields.unsupported(
      `${family}.rope.scaling.type`,
      "martingale runs rotary positions without scaling, or with Llama 3's.",
    );
  if (!factors) return null;
  const factor = factors.reduce((largest, one) => Math.max(largest, one), 1);
  const plain = rotaryFrequencies({ theta, scaling: null }, headWidth);
  const scaled = rotaryFrequencies(
    {
      theta,
      scaling: {
        factor,
        lowFrequencyFactor: llama3.low_freq_factor,
        highFrequencyFactor: llama3.high_freq_factor,
        originalContextLength: llama3.original_max_position_embeddings,
      },
    },
    headWidth,
  );
  const isSame =
    factors.length === plain.length &&
    factors.every(
      (one, index) => Math.abs(((scaled[index] as number) * one) / (plain[index] as number) - 1) < 1e-4,
    );
  if (!isSame)
    throw fields.unsupported(
      `${family}.rope.freq_base`,
      `martingale runs the rotary scaling of Llama 3, but ${ropeFactors} is another one.`,
    );
  return { rope_type: 'llama3', factor, ...llama3 };
}
