import { type Architecture, isGated } from '../weights/architecture.ts';

/** The matrices of a layer that LoRA may change, as Hugging Face names them. */
export const projections = [
  'q_proj',
  'k_proj',
  'v_proj',
  'o_proj',
  'gate_proj',
  'up_proj',
  'down_proj',
] as const;

export type Projection = (typeof projections)[number];

export interface NamedShape {
  name: string;
  dimensions: readonly number[];
}

/** The table of the tokens' embeddings. */
export const embeddingTensor = 'model.embed_tokens.weight';
/** The matrix of a head that is not the embeddings. */
export const headTensor = 'lm_head.weight';
export const finalNormTensor = 'model.norm.weight';

/** The name of a projection's matrix, without `.weight`. */
export function projectionName(layer: number, projection: Projection): string {
  const block = ['gate_proj', 'up_proj', 'down_proj'].includes(projection) ? 'mlp' : 'self_attn';
  return `model.layers.${layer}.${block}.${projection}`;
}

/** Outputs and inputs of a projection: the shape of its matrix. */
export function projectionShape(architecture: Architecture, projection: Projection): [number, number] {
  const { width, heads, keyValueHeads, headWidth, mlpWidth } = architecture;
  switch (projection) {
    case 'q_proj':
      return [heads * headWidth, width];
    case 'k_proj':
    case 'v_proj':
      return [keyValueHeads * headWidth, width];
    case 'o_proj':
      return [width, heads * headWidth];
    case 'gate_proj':
    case 'up_proj':
      return [mlpWidth, width];
    case 'down_proj':
      return [width, mlpWidth];
  }
}

/** The norms of a layer, as Hugging Face names them. */
export type NormName =
  | 'input_layernorm'
  | 'post_attention_layernorm'
  | 'pre_feedforward_layernorm'
  | 'post_feedforward_layernorm'
  | 'q_norm'
  | 'k_norm';

/**
 * The norms before and after attention and MLP. `post_attention_layernorm` is attention's own output norm where there are
 * such, and else the norm before the MLP, which is after attention too.
 */
export function sublayerNorms({
  outputNorms,
}: Architecture): Record<'attention' | 'mlp', { before: NormName; after: NormName | null }> {
  return outputNorms
    ? {
        attention: { before: 'input_layernorm', after: 'post_attention_layernorm' },
        mlp: { before: 'pre_feedforward_layernorm', after: 'post_feedforward_layernorm' },
      }
    : {
        attention: { before: 'input_layernorm', after: null },
        mlp: { before: 'post_attention_layernorm', after: null },
      };
}

/** The norms of an architecture's layers. */
export function normsOf(architecture: Architecture): NormName[] {
  const { attention, mlp } = sublayerNorms(architecture);
  const perHead: NormName[] = architecture.queryKeyNorm ? ['q_norm', 'k_norm'] : [];
  return [
    ...[attention.before, attention.after, mlp.before, mlp.after].filter((name) => name !== null),
    ...perHead,
  ];
}

const isPerHead = (norm: NormName) => norm === 'q_norm' || norm === 'k_norm';

/** Numbers that a norm normalises together. */
export const normWidth = ({ width, headWidth }: Architecture, norm: NormName): number =>
  isPerHead(norm) ? headWidth : width;

/** The name of a norm's tensor, without `.weight`. */
const normTensor = (layer: number, norm: NormName): string =>
  `model.layers.${layer}.${isPerHead(norm) ? 'self_attn.' : ''}${norm}`;

/** The projections of an architecture's layers. */
export const projectionsOf = (architecture: Architecture): Projection[] =>
  projections.filter((name) => name !== 'gate_proj' || isGated(architecture));

/** Whether a projection has a bias. */
export const hasBias = ({ attentionBias }: Architecture, projection: Projection): boolean =>
  attentionBias && ['q_proj', 'k_proj', 'v_proj'].includes(projection);

/** A tensor of a layer, and its name without the layer: that of its projection or norm, or `<projection>.bias`. */
export interface LayerTensor extends NamedShape {
  part: string;
}

/** The tensors of a layer in Hugging Face form; matrices are [outputs, inputs]. */
export function layerTensors(architecture: Architecture, layer: number): LayerTensor[] {
  const ofNorm = (norm: NormName): LayerTensor => ({
    part: norm,
    name: `${normTensor(layer, norm)}.weight`,
    dimensions: [normWidth(architecture, norm)],
  });
  const ofProjection = (projection: Projection): LayerTensor[] => {
    const dimensions = projectionShape(architecture, projection);
    const name = projectionName(layer, projection);
    const matrix = { part: projection, name: `${name}.weight`, dimensions };
    const bias = { part: `${projection}.bias`, name: `${name}.bias`, dimensions: [dimensions[0]] };
    return hasBias(architecture, projection) ? [matrix, bias] : [matrix];
  };
  const norms = normsOf(architecture);
  return [
    ...norms.filter((norm) => !isPerHead(norm)).map(ofNorm),
    ...projectionsOf(architecture).flatMap(ofProjection),
    ...norms.filter(isPerHead).map(ofNorm),
  ];
}

/** A table of which a row is added to a token's first state. */
interface EmbeddingTable extends NamedShape {
  /** The row is that of the token so many before; null: that of the position. */
  distance: number | null;
}

/** The tables whose rows add up to the first state of a token. */
export function embeddingTables(architecture: Architecture): EmbeddingTable[] {
  const { vocabularySize, width, contextLength, positions, previousTokens } = architecture;
  const table = [vocabularySize, width];
  return [
    { name: embeddingTensor, dimensions: table, distance: 0 },
    ...(positions === 'learned'
      ? [{ name: 'model.embed_positions.weight', dimensions: [contextLength, width], distance: null }]
      : []),
    ...Array.from({ length: previousTokens }, (_, index) => ({
      name: `model.embed_previous.${index + 1}.weight`,
      dimensions: table,
      distance: index + 1,
    })),
  ];
}

/** The tensors of a model, named as Hugging Face names them; matrices are [outputs, inputs]. */
export function checkpointTensors(architecture: Architecture): NamedShape[] {
  const { vocabularySize, width, layers, tiedEmbeddings } = architecture;
  const table = [vocabularySize, width];
  return [
    ...embeddingTables(architecture).map(({ name, dimensions }) => ({ name, dimensions })),
    ...Array.from({ length: layers }, (_, layer) => layerTensors(architecture, layer)).flat(),
    { name: finalNormTensor, dimensions: [width] },
    ...(tiedEmbeddings ? [] : [{ name: headTensor, dimensions: table }]),
  ];
}
