import { sumOf } from '../../../util/sums.ts';
/**
 * A decoder-only transformer with RMS norms before attention and MLP: the engine's tiny models and checkpoints in Hugging
 * Face form.
 */
export interface Architecture {
  vocabularySize: number;
  /** Width of the states between layers. */
  width: number;
  layers: number;
  /** Heads of queries. `heads / keyValueHeads` neighbouring heads share keys and values. */
  heads: number;
  keyValueHeads: number;
  headWidth: number;
  /** Width of the MLP's hidden layer. */
  mlpWidth: number;
  contextLength: number;
  /** A table with a row for each position, or rotations of queries and keys (Su et al. 2021, arXiv:2104.09864). */
  positions: 'learned' | RotaryPositions;
  /**
   * Number of preceding tokens that are embedded with each token. With those, one layer is enough to find an earlier
   * token and see what follows it, as copying needs. They depend only on token ids, so the key-value cache does not
   * change.
   */
  previousTokens: number;
  /**
   * `squared-relu`: down(relu(up(x))^2). `gated-silu`: down(silu(gate(x)) * up(x)). `gated-gelu`: the same with the GELU as
   * tanh approximates it.
   */
  mlp: 'squared-relu' | 'gated-silu' | 'gated-gelu';
  /** Added to the mean square in norms. */
  normEpsilon: number;
  /** Added to a norm's weights, which gives its gain. */
  normOffset: 0 | 1;
  /** Whether what attention and MLP add to the states is normalised too. */
  outputNorms: boolean;
  /** Factor of the embeddings of tokens, not of the head. */
  embeddingScale: number;
  /** Factor of the products of queries and keys. Null: 1 / sqrt(headWidth). */
  attentionScale: number | null;
  /** Factor of what attention and MLP add to the states. */
  residualScale: number;
  /** Factor of the logits. */
  logitScale: number;
  /** Whether one matrix gives what an MLP's gate takes, and after it what the gate multiplies. */
  joinedGate: boolean;
  /** Layers whose attention sees the latest positions only. Null: all layers see all earlier ones. */
  local: LocalAttention | null;
  /** Layers with a gated short convolution in place of attention. Null: none. */
  convolutions: Convolutions | null;
  /** How files name the tensors of layers. */
  tensorNames: 'llama' | 'lfm2' | 'granite-hybrid';
  /** Whether the queries and keys of each head are normalised before they are rotated. */
  queryKeyNorm: boolean;
  /** Whether queries, keys and values have biases. */
  attentionBias: boolean;
  /** Whether the output head is the token embedding. */
  tiedEmbeddings: boolean;
}

interface LocalAttention {
  /** Whether each layer is one of them. */
  layers: readonly boolean[];
  /** Number of positions that a token sees, its own included. */
  window: number;
  /** The rotations of these layers. With a window as long as the context, they are all that is local. */
  positions: RotaryPositions;
}

/**
 * Layers as LFM2 has them. With B, C and x the three parts of in_proj(states), the layer's convolution y of B * x gives
 * out_proj(C * y). Each channel has a kernel of its own, [width, 1, taps]; y[t] is the sum of
 * kernel[k] * (B * x)[t - (taps - 1) + k], with 0 before the first token.
 */
interface Convolutions {
  /** Whether each layer is one of them. */
  layers: readonly boolean[];
  /** Number of positions that a token sees, its own included. */
  taps: number;
}

/** What mixes the positions in a layer. */
export type LayerKind = 'attention' | 'convolution';

export const kindOf = ({ convolutions }: Architecture, layer: number): LayerKind =>
  convolutions?.layers[layer] ? 'convolution' : 'attention';

/** The kinds of an architecture's layers, each once. */
export const kindsOf = (architecture: Architecture): LayerKind[] => [
  ...new Set(Array.from({ length: architecture.layers }, (_, layer) => kindOf(architecture, layer))),
];

/** Options that most families leave at these values. */
export const usualOptions = {
  normOffset: 0,
  outputNorms: false,
  embeddingScale: 1,
  attentionScale: null,
  residualScale: 1,
  logitScale: 1,
  joinedGate: false,
  local: null,
  convolutions: null,
  tensorNames: 'llama',
} as const satisfies Partial<Architecture>;

export const isGated = ({ mlp }: Architecture): boolean => mlp !== 'squared-relu';

/** The factor of the products of queries and keys. */
export const attentionScaleOf = ({ attentionScale, headWidth }: Architecture): number =>
  attentionScale ?? 1 / Math.sqrt(headWidth);

export const isLocal = ({ local }: Architecture, layer: number): boolean => local?.layers[layer] ?? false;

export interface RotaryPositions {
  /** Base of the wave lengths. */
  theta: number;
  /** A number makes all waves as many times as long. */
  scaling: RotaryScaling | number | null;
}

/** Rotations by nothing: the waves are endless. */
export const unrotated: RotaryPositions = { theta: 1, scaling: Number.POSITIVE_INFINITY };

/** Llama 3's scaling of the wave lengths. */
export interface RotaryScaling {
  factor: number;
  lowFrequencyFactor: number;
  highFrequencyFactor: number;
  originalContextLength: number;
}

/** The architecture of the models whose parameters are all trained. */
export function fullyTrained(
  sizes: Pick<
    Architecture,
    'vocabularySize' | 'width' | 'layers' | 'heads' | 'contextLength' | 'previousTokens'
  >,
): Architecture {
  return {
    ...sizes,
    keyValueHeads: sizes.heads,
    headWidth: sizes.width / sizes.heads,
    mlpWidth: 4 * sizes.width,
    positions: 'learned',
    mlp: 'squared-relu',
    normEpsilon: 1e-5,
    ...usualOptions,
    queryKeyNorm: false,
    attentionBias: false,
    tiedEmbeddings: false,
  };
}

export interface NamedShape {
  name: string;
  dimensions: readonly number[];
}

/** Number of values of a tensor. */
export const elementsOf = (dimensions: readonly number[]): number =>
  dimensions.reduce((product, dimension) => product * dimension, 1);

export interface TensorShape extends NamedShape {
  /** Offset and length in the flat parameter vector, in elements. */
  offset: number;
  size: number;
}

/** Number of values of tensors in one flat vector. */
export const vectorLength = (shapes: readonly TensorShape[]): number => sumOf(shapes, ({ size }) => size);
