import type { Family } from './families/family.ts';
import { embeddingTensor, finalNormTensor, headTensor, type LayerPart, partName } from './tensors.ts';

/** What most families call the parts of layers, and no family any other. */
const usualParts: Readonly<Partial<Record<LayerPart, string>>> = {
  input_layernorm: 'attn_norm',
  post_attention_layernorm: 'ffn_norm',
  q_proj: 'attn_q',
  k_proj: 'attn_k',
  v_proj: 'attn_v',
  o_proj: 'attn_output',
  q_norm: 'attn_q_norm',
  k_norm: 'attn_k_norm',
  in_proj: 'shortconv.in_proj',
  out_proj: 'shortconv.out_proj',
  convolution: 'shortconv.conv',
  gate_proj: 'ffn_gate',
  up_proj: 'ffn_up',
  down_proj: 'ffn_down',
};

/** Pairs of names, in Hugging Face form and in GGUF files: of parts of layers, and of tensors beside layers. */
function namesOf(family: Family): Record<'layer' | 'other', (readonly [theirs: string, ours: string])[]> {
  const { partNames, finalNorm } = family.gguf;
  const stem = (name: string) => name.replace(/\.weight$/, '');
  return {
    layer: Object.entries({ ...usualParts, ...partNames }).map(
      ([part, name]) => [partName(family, part as LayerPart), name] as const,
    ),
    other: [
      [stem(embeddingTensor), 'token_embd'],
      [stem(finalNormTensor(family)), finalNorm],
      [stem(headTensor), 'output'],
    ],
  };
}

/** A tensor's name in GGUF files from that in Hugging Face form, such as `blk.0.attn_q.weight`; both with their ending. */
function ggufName(name: string, family: Family): string {
  const [, stem = '', ending = ''] = /^(.*?)\.(weight|bias|lora_[AB]\.weight)$/.exec(name) ?? [];
  const [, layer, part = ''] = /^model\.layers\.(\d+)\.(.*)$/.exec(stem) ?? [];
  const names = namesOf(family)[layer === undefined ? 'other' : 'layer'];
  const found = names.find(([theirs]) => theirs === (layer === undefined ? stem : part));
  if (found === undefined) throw new Error(`GGUF files have no tensor ${name}`);
  return `${layer === undefined ? '' : `blk.${layer}.`}${found[1]}.${ending}`;
}

/** The tensors of a file that a tensor becomes, each with an equal share of its rows: of a matrix for gate and `up`, two. */
export function ggufNames(name: string, family: Family): string[] {
  const joined = `.${partName(family, 'gate_up_proj')}.`;
  const parts = name.includes(joined) ? (['gate_proj', 'up_proj'] as const) : [];
  const names = parts.map((part) => name.replace(joined, `.${partName(family, part)}.`));
  return (names.length === 0 ? [name] : names).map((own) => ggufName(own, family));
}

/** The Hugging Face name of a GGUF tensor. An unknown name is returned unchanged. */
export function huggingFaceName(name: string, family: Family): string {
  const [, layer, part = '', ending] = /^(?:blk\.(\d+)\.)?(.*)\.(weight|bias)$/.exec(name) ?? [];
  const names = namesOf(family)[layer === undefined ? 'other' : 'layer'];
  const found = names.find(([, ours]) => ours === part);
  if (found === undefined) return name;
  return `${layer === undefined ? '' : `model.layers.${layer}.`}${found[0]}.${ending}`;
}

/**
 * The shape of a tensor in files, from that in Hugging Face form: kernels of convolutions are [width, taps] there, and
 * [width, 1, taps] here.
 */
export const shapeInFile = (dimensions: readonly number[]): readonly number[] =>
  dimensions.length === 3 ? [dimensions[0] as number, dimensions[2] as number] : dimensions;

/** The other way round, of a tensor by its name in Hugging Face form. */
export const shapeInModel = (name: string, dimensions: readonly number[]): readonly number[] =>
  name.endsWith('.conv.conv.weight') && dimensions.length === 2
    ? [dimensions[0] as number, 1, dimensions[1] as number]
    : dimensions;

/** The number that GGUF files add to a tensor's numbers. */
export const addedInFile = (name: string, { gguf }: Family): number =>
  name.endsWith('norm.weight') ? gguf.addedToNorms : 0;

/**
 * The heads of a matrix whose rows lie in another order in files of the architecture `llama`: there, the two halves of
 * each head take turns, because llama.cpp turns neighbouring elements. Null for all others.
 */
export function interleavedHeads(
  name: string,
  { family, heads, keyValueHeads }: { family: Family; heads: number; keyValueHeads: number },
): number | null {
  if (!family.gguf.isInterleaved) return null;
  if (/\.q_proj\.(weight|lora_B\.weight)$/.test(name)) return heads;
  return /\.k_proj\.(weight|lora_B\.weight)$/.test(name) ? keyValueHeads : null;
}

/**
 * Rows of whole heads, from the order of such a file into the usual one, or back.
 * @param width Numbers of a row.
 */
export function reorderedRows(
  rows: Float32Array,
  { rowsOfHead, width, to }: { rowsOfHead: number; width: number; to: 'file' | 'model' },
): Float32Array {
  const half = rowsOfHead / 2;
  const reordered = new Float32Array(rows.length);
  for (let row = 0; row * width < rows.length; row++) {
    const within = row % rowsOfHead;
    const inFile = within < half ? 2 * within : 2 * (within - half) + 1;
    const other = row - within + inFile;
    const [source, target] = to === 'model' ? [other, row] : [row, other];
    reordered.set(rows.subarray(source * width, (source + 1) * width), target * width);
  }
  return reordered;
}
