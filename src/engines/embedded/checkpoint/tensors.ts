import type { Architecture } from '../weights/architecture.ts';

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
export const normTensor = (layer: number, norm: NormName): string =>
  `model.layers.${layer}.${isPerHead(norm) ? 'self_attn.' : ''}${norm}`;

/** The tensors of a checkpoint in Hugging Face form; matrices are [outputs, inputs]. */
export function checkpointTensors(architecture: Architecture): NamedShape[] {
  const { vocabularySize, width, layers, attentionBias, tiedEmbeddings } = architecture;
  const tensors: [string, number[]][] = [[embeddingTensor, [vocabularySize, width]]];
  for (let layer = 0; layer < layers; layer++) {
    const norms = normsOf(architecture);
    for (const norm of norms.filter((name) => !isPerHead(name)))
      tensors.push([`${normTensor(layer, norm)}.weight`, [width]]);
    for (const projection of projections) {
      const shape = projectionShape(architecture, projection);
      const name = projectionName(layer, projection);
      tensors.push([`${name}.weight`, shape]);
      if (attentionBias && ['q_proj', 'k_proj', 'v_proj'].includes(projection))
        tensors.push([`${name}.bias`, [shape[0]]]);
    }
    for (const norm of norms.filter(isPerHead))
      tensors.push([`${normTensor(layer, norm)}.weight`, [normWidth(architecture, norm)]]);
  }
  tensors.push([finalNormTensor, [width]]);
  if (!tiedEmbeddings) tensors.push([headTensor, [vocabularySize, width]]);
  return tensors.map(([name, dimensions]) => ({ name, dimensions }));
}
