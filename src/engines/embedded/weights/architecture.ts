/**
 * A decoder-only transformer: RMS norms before attention and MLP, squared-ReLU MLP, learned positions, an output
 * head of its own, and, beside the embedding of each token, embeddings of the tokens just before it. Those let
 * one layer see what follows a token that it finds again, which is what copying needs; they depend on token ids
 * alone, so the key-value cache does not change.
 */
export interface Architecture {
  vocabularySize: number;
  width: number;
  layers: number;
  heads: number;
  contextLength: number;
  /** How many tokens before each token are embedded with it. */
  previousTokens: number;
  /** Width of the MLP, as a multiple of `width`. */
  expansion: number;
}

export interface TensorShape {
  name: string;
  dimensions: number[];
  /** Offset and length in the flat parameter vector, in elements. */
  offset: number;
  size: number;
}

export const headWidth = (architecture: Architecture) => architecture.width / architecture.heads;

/** Whether a tensor is a table that is looked up by token. */
export const isLookup = (name: string) =>
  name === 'token_embedding' || name.startsWith('previous_embedding.');

/** The tensors of a model in the order in which the flat parameter vector holds them. */
export function tensorShapes(architecture: Architecture): TensorShape[] {
  const { vocabularySize, width, layers, contextLength, previousTokens, expansion } = architecture;
  const dimensions: [string, number[]][] = [
    ['token_embedding', [vocabularySize, width]],
    ['position_embedding', [contextLength, width]],
  ];
  for (let distance = 1; distance <= previousTokens; distance++)
    dimensions.push([`previous_embedding.${distance}`, [vocabularySize, width]]);
  for (let layer = 0; layer < layers; layer++)
    dimensions.push(
      [`layers.${layer}.attention_norm`, [width]],
      [`layers.${layer}.query_key_value`, [width, 3 * width]],
      [`layers.${layer}.attention_output`, [width, width]],
      [`layers.${layer}.mlp_norm`, [width]],
      [`layers.${layer}.mlp_up`, [width, expansion * width]],
      [`layers.${layer}.mlp_down`, [expansion * width, width]],
    );
  dimensions.push(['final_norm', [width]], ['head', [width, vocabularySize]]);
  let offset = 0;
  return dimensions.map(([name, shape]) => {
    const size = shape.reduce((product, dimension) => product * dimension, 1);
    const tensor = { name, dimensions: shape, offset, size };
    offset += size;
    return tensor;
  });
}

export function parameterCount(architecture: Architecture): number {
  return tensorShapes(architecture).reduce((sum, tensor) => sum + tensor.size, 0);
}
