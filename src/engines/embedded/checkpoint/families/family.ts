import type { JsonFields } from '../../../../language/index.ts';
import type { Architecture } from '../../weights/architecture.ts';
import type { GgufField } from '../gguf/encode-header.ts';
import type { GgufFields } from '../gguf/fields.ts';
import type { LayerPart } from '../tensors.ts';

/** A field that changes the model when it has another value than these. Missing and null mean the first. */
export type FixedField = readonly [field: string, values: readonly unknown[], remedy: string];

/** The sizes that `config.json` of all families names alike. */
type CommonSizes = Pick<
  Architecture,
  | 'vocabularySize'
  | 'width'
  | 'layers'
  | 'heads'
  | 'keyValueHeads'
  | 'headWidth'
  | 'contextLength'
  | 'previousTokens'
>;

/** Sizes of a GGUF file, and the factors of its rotary frequencies or null. */
export interface GgufSizes {
  width: number;
  heads: number;
  headWidth: number;
  factors: readonly number[] | null;
}

/** A family of models: what its files say beside common sizes, in Hugging Face form and in GGUF files. */
export interface Family {
  /** Its `model_type` in `config.json`. */
  modelType: string;
  /** The class of transformers that loads it. */
  className: string;
  tensorNames: Architecture['tensorNames'];
  /** The defaults of transformers. Null: as many as heads; the width divided by the heads. */
  keyValueHeads: number | null;
  headWidth: number | null;
  fixed: readonly FixedField[];
  /**
   * What `config.json` says beside common sizes.
   * @throws LanguageError (`checkpoint_unsupported`, `bad_checkpoint`) that names file, field and value.
   */
  options(
    config: JsonFields,
    sizes: { width: number; layers: number },
  ): Omit<Architecture, keyof CommonSizes | 'tensorNames'>;
  gguf: {
    /** Its `general.architecture`, and the prefix of its fields. */
    name: string;
    /** Parts of layers that it names otherwise than most families. */
    partNames: Readonly<Partial<Record<LayerPart, string>>>;
    finalNorm: string;
    /** Added to the numbers of norms in files. */
    addedToNorms: 0 | 1;
    /** Whether rows of queries and keys lie in the order of llama.cpp, which turns neighbouring elements. */
    isInterleaved: boolean;
    /** What a file says, in the fields of `config.json`. Values are checked where that is read. */
    config(fields: GgufFields, sizes: GgufSizes): object;
    /**
     * Fields of a file, without the prefix, that only this family has.
     * @throws EngineError (`checkpoint_unsupported`) for what llama.cpp computes otherwise
     */
    fields(architecture: Architecture): Record<string, GgufField>;
  };
}

/** The most layers, and the largest width of an MLP: a few times more than in published models. */
export const [mostLayers, mostMlpWidth] = [1024, 1 << 20];

/** What most families read alike. */
export const readMlpAndNorms = (config: JsonFields, widthField = 'intermediate_size') => ({
  mlpWidth: config.count(widthField, mostMlpWidth),
  normEpsilon: config.number('rms_norm_eps', { least: 1e-12, most: 1 }),
});

export const silu: FixedField = ['hidden_act', ['silu'], 'martingale runs MLPs with "silu" only.'];
