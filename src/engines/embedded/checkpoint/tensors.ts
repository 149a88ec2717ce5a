import { getOrInsert } from '../../../util/get-or-insert.ts';
import {
  type Architecture,
  isGated,
  kindOf,
  kindsOf,
  type LayerKind,
  type NamedShape,
} from '../weights/architecture.ts';

/** The matrices of layers that LoRA may change, as Hugging Face names them in most families. */
export const projections = [
  'q_proj',
  'k_proj',
  'v_proj',
  'o_proj',
  'in_proj',
  'out_proj',
  'gate_proj',
  'up_proj',
  'gate_up_proj',
  'down_proj',
] as const;

export type Projection = (typeof projections)[number];

/** The table of the tokens' embeddings. */
export const embeddingTensor = 'model.embed_tokens.weight';
/** The matrix of a head that is not the embeddings. */
export const headTensor = 'lm_head.weight';
export const finalNormTensor = ({ tensorNames }: Pick<Architecture, 'tensorNames'>): string =>
  tensorNames === 'lfm2' ? 'model.embedding_norm.weight' : 'model.norm.weight';

/** The kernels of a layer's convolution. */
export const kernelPart = 'convolution';

/** What has tensors in a layer. */
export type LayerPart = Projection | NormName | typeof kernelPart;

const usualNames: Readonly<Record<LayerPart, string>> = {
  q_proj: 'self_attn.q_proj',
  k_proj: 'self_attn.k_proj',
  v_proj: 'self_attn.v_proj',
  o_proj: 'self_attn.o_proj',
  in_proj: 'conv.in_proj',
  out_proj: 'conv.out_proj',
  gate_proj: 'mlp.gate_proj',
  up_proj: 'mlp.up_proj',
  gate_up_proj: 'mlp.gate_up_proj',
  down_proj: 'mlp.down_proj',
  input_layernorm: 'input_layernorm',
  post_attention_layernorm: 'post_attention_layernorm',
  pre_feedforward_layernorm: 'pre_feedforward_layernorm',
  post_feedforward_layernorm: 'post_feedforward_layernorm',
  q_norm: 'self_attn.q_norm',
  k_norm: 'self_attn.k_norm',
  [kernelPart]: 'conv.conv',
};

const namesInFiles: Readonly<Record<Architecture['tensorNames'], typeof usualNames>> = {
  llama: usualNames,
  lfm2: {
    ...usualNames,
    o_proj: 'self_attn.out_proj',
    gate_proj: 'feed_forward.w1',
    up_proj: 'feed_forward.w3',
    down_proj: 'feed_forward.w2',
    input_layernorm: 'operator_norm',
    post_attention_layernorm: 'ffn_norm',
    q_norm: 'self_attn.q_layernorm',
    k_norm: 'self_attn.k_layernorm',
  },
  'granite-hybrid': {
    ...usualNames,
    gate_up_proj: 'shared_mlp.input_linear',
    down_proj: 'shared_mlp.output_linear',
  },
};

/** The name in files of a projection, norm or kernels, without the layer and `.weight`. */
export const partName = ({ tensorNames }: Pick<Architecture, 'tensorNames'>, part: LayerPart): string =>
  namesInFiles[tensorNames][part];

/** The name in files of a layer's projection, norm or kernels, without `.weight`. */
export const layerTensorName = (architecture: Architecture, layer: number, part: LayerPart): string =>
  `model.layers.${layer}.${partName(architecture, part)}`;

export const allProjections = (architecture: Architecture): Projection[] =>
  projections.filter((name) =>
    kindsOf(architecture).some((kind) => projectionsOf(architecture, kind).includes(name)),
  );

/**
 * The projections of an architecture by the names of their modules, as PEFT's `target_modules` has them: the last part of
 * what files call them. In LFM2, both attention and convolutions have an `out_proj`.
 */
export function modulesOf(architecture: Architecture): Map<string, Projection[]> {
  const modules = new Map<string, Projection[]>();
  for (const projection of allProjections(architecture)) {
    const name = partName(architecture, projection).split('.').at(-1) as string;
    getOrInsert(modules, name, () => []).push(projection);
  }
  return modules;
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
    case 'in_proj':
      return [3 * width, width];
    case 'out_proj':
      return [width, width];
    case 'gate_proj':
    case 'up_proj':
      return [mlpWidth, width];
    case 'gate_up_proj':
      return [2 * mlpWidth, width];
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

export function normsOf(architecture: Architecture, kind: LayerKind): NormName[] {
  const { attention, mlp } = sublayerNorms(architecture);
  const hasHeads = kind === 'attention' && architecture.queryKeyNorm;
  const perHead: NormName[] = hasHeads ? ['q_norm', 'k_norm'] : [];
  return [
    ...[attention.before, attention.after, mlp.before, mlp.after].filter((name) => name !== null),
    ...perHead,
  ];
}

const isPerHead = (norm: NormName) => norm === 'q_norm' || norm === 'k_norm';

/** Numbers that a norm normalises together. */
export const normWidth = ({ width, headWidth }: Architecture, norm: NormName): number =>
  isPerHead(norm) ? headWidth : width;

/** The projections that only layers of one kind have. */
const ofOneKind: Readonly<Partial<Record<Projection, LayerKind>>> = {
  q_proj: 'attention',
  k_proj: 'attention',
  v_proj: 'attention',
  o_proj: 'attention',
  in_proj: 'convolution',
  out_proj: 'convolution',
};

export function projectionsOf(architecture: Architecture, kind: LayerKind): Projection[] {
  const inputs = inputsOfMlp(architecture);
  return projections.filter((name) =>
    name === 'gate_proj' || name === 'up_proj' || name === 'gate_up_proj'
      ? inputs.includes(name)
      : (ofOneKind[name] ?? kind) === kind,
  );
}

function inputsOfMlp(architecture: Architecture): Projection[] {
  if (!isGated(architecture)) return ['up_proj'];
  return architecture.joinedGate ? ['gate_up_proj'] : ['gate_proj', 'up_proj'];
}

export const hasBias = ({ attentionBias }: Architecture, projection: Projection): boolean =>
  attentionBias && ['q_proj', 'k_proj', 'v_proj'].includes(projection);

/** A tensor of a layer, and what it is: its projection or norm, `<projection>.bias`, or `kernelPart`. */
interface LayerTensor extends NamedShape {
  part: string;
}

/** The tensors of a layer in Hugging Face form; matrices are [outputs, inputs]. */
export function layerTensors(architecture: Architecture, layer: number): LayerTensor[] {
  const { width, convolutions } = architecture;
  const kind = kindOf(architecture, layer);
  const ofNorm = (norm: NormName): LayerTensor => ({
    part: norm,
    name: `${layerTensorName(architecture, layer, norm)}.weight`,
    dimensions: [normWidth(architecture, norm)],
  });
  const ofProjection = (projection: Projection): LayerTensor[] => {
    const dimensions = projectionShape(architecture, projection);
    const name = layerTensorName(architecture, layer, projection);
    const matrix = { part: projection, name: `${name}.weight`, dimensions };
    const bias = { part: `${projection}.bias`, name: `${name}.bias`, dimensions: [dimensions[0]] };
    return hasBias(architecture, projection) ? [matrix, bias] : [matrix];
  };
  const norms = normsOf(architecture, kind);
  const kernels = {
    part: kernelPart,
    name: `${layerTensorName(architecture, layer, kernelPart)}.weight`,
    dimensions: [width, 1, convolutions?.taps ?? 0],
  };
  return [
    ...norms.filter((norm) => !isPerHead(norm)).map(ofNorm),
    ...projectionsOf(architecture, kind).flatMap(ofProjection),
    ...norms.filter(isPerHead).map(ofNorm),
    ...(kind === 'convolution' ? [kernels] : []),
  ];
}

/** A table of which a row is added to a token's first state. */
export interface EmbeddingTable extends NamedShape {
  /** Which row is added: the row of the token this many before it, or with null the row of its position. */
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
    { name: finalNormTensor(architecture), dimensions: [width] },
    ...(tiedEmbeddings ? [] : [{ name: headTensor, dimensions: table }]),
  ];
}
