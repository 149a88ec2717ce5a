/**
 * A decoder-only transformer: RMS norms before attention and MLP, squared-ReLU MLP, learned positions, an untied output
 * head, and, besides the embedding of each token, embeddings of the tokens just before it. With those, one layer is
 * enough to find an earlier token and see what follows it, as copying needs. They depend only on token ids, so the
 * key-value cache does not change.
 */
export interface Architecture {
  vocabularySize: number;
  width: number;
  layers: number;
  heads: number;
  contextLength: number;
  /** Number of preceding tokens that are embedded with each token. */
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

/** The tensors of a model, in the order of the flat parameter vector. */
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
