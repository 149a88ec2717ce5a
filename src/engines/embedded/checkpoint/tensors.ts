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

/** The tensors of a checkpoint in Hugging Face form; matrices are [outputs, inputs]. */
export function checkpointTensors(architecture: Architecture): NamedShape[] {
  const { vocabularySize, width, layers, headWidth, attentionBias, queryKeyNorm, tiedEmbeddings } =
    architecture;
  const tensors: [string, number[]][] = [[embeddingTensor, [vocabularySize, width]]];
  for (let layer = 0; layer < layers; layer++) {
    const prefix = `model.layers.${layer}`;
    tensors.push([`${prefix}.input_layernorm.weight`, [width]]);
    tensors.push([`${prefix}.post_attention_layernorm.weight`, [width]]);
    for (const projection of projections) {
      const shape = projectionShape(architecture, projection);
      const name = projectionName(layer, projection);
      tensors.push([`${name}.weight`, shape]);
      if (attentionBias && ['q_proj', 'k_proj', 'v_proj'].includes(projection))
        tensors.push([`${name}.bias`, [shape[0]]]);
    }
    if (queryKeyNorm)
      for (const norm of ['q_norm', 'k_norm'])
        tensors.push([`${prefix}.self_attn.${norm}.weight`, [headWidth]]);
  }
  tensors.push([finalNormTensor, [width]]);
  if (!tiedEmbeddings) tensors.push([headTensor, [vocabularySize, width]]);
  return tensors.map(([name, dimensions]) => ({ name, dimensions }));
}
