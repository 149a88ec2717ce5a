import { gemma3 } from './gemma3.ts';
import { lfm2 } from './lfm2.ts';

const layerNames: Readonly<Record<string, string>> = {
  input_layernorm: 'attn_norm',
  post_attention_layernorm: 'ffn_norm',
  'self_attn.q_proj': 'attn_q',
  'self_attn.k_proj': 'attn_k',
  'self_attn.v_proj': 'attn_v',
  'self_attn.o_proj': 'attn_output',
  'self_attn.q_norm': 'attn_q_norm',
  'self_attn.k_norm': 'attn_k_norm',
  'mlp.gate_proj': 'ffn_gate',
  'mlp.up_proj': 'ffn_up',
  'mlp.down_proj': 'ffn_down',
};

/** Where attention's output has a norm, Hugging Face has another name for the one before the MLP. */
const gemmaNames: Readonly<Record<string, string>> = {
  ...layerNames,
  post_attention_layernorm: 'post_attention_norm',
  pre_feedforward_layernorm: 'ffn_norm',
  post_feedforward_layernorm: 'post_ffw_norm',
};

const lfm2Names: Readonly<Record<string, string>> = {
  operator_norm: 'attn_norm',
  ffn_norm: 'ffn_norm',
  'self_attn.q_proj': 'attn_q',
  'self_attn.k_proj': 'attn_k',
  'self_attn.v_proj': 'attn_v',
  'self_attn.out_proj': 'attn_output',
  'self_attn.q_layernorm': 'attn_q_norm',
  'self_attn.k_layernorm': 'attn_k_norm',
  'conv.in_proj': 'shortconv.in_proj',
  'conv.out_proj': 'shortconv.out_proj',
  'conv.conv': 'shortconv.conv',
  'feed_forward.w1': 'ffn_gate',
  'feed_forward.w3': 'ffn_up',
  'feed_forward.w2': 'ffn_down',
};

const otherNames: Readonly<Record<string, string>> = {
  'model.embed_tokens': 'token_embd',
  'model.norm': 'output_norm',
  lm_head: 'output',
};

const usual = { layer: layerNames, other: otherNames };
const own = new Map([
  [gemma3, { layer: gemmaNames, other: otherNames }],
  // As the model itself does, llama.cpp names the norm of the last states after the embeddings.
  [lfm2, { layer: lfm2Names, other: { ...otherNames, 'model.embedding_norm': 'token_embd_norm' } }],
]);
const namesOf = (family: string): typeof usual => own.get(family) ?? usual;

const keyOf = (names: Readonly<Record<string, string>>, theirs: string) =>
  Object.keys(names).find((key) => names[key] === theirs);

/** A tensor's name in GGUF files from that in Hugging Face form, such as `blk.0.attn_q.weight`; both with their ending. */
export function ggufName(name: string, family: string): string {
  const [, stem = '', ending = ''] = /^(.*?)\.(weight|bias|lora_[AB]\.weight)$/.exec(name) ?? [];
  const [, layer, part = ''] = /^model\.layers\.(\d+)\.(.*)$/.exec(stem) ?? [];
  const names = namesOf(family);
  const found = layer === undefined ? names.other[stem] : names.layer[part];
  if (found === undefined) throw new Error(`GGUF files have no tensor ${name}`);
  return `${layer === undefined ? '' : `blk.${layer}.`}${found}.${ending}`;
}

/** The Hugging Face name of a GGUF tensor. An unknown name is returned unchanged. */
export function huggingFaceName(name: string, family: string): string {
  const [, layer, part = '', ending] = /^(?:blk\.(\d+)\.)?(.*)\.(weight|bias)$/.exec(name) ?? [];
  const names = namesOf(family);
  const found = keyOf(layer === undefined ? names.other : names.layer, part);
  if (found === undefined) return name;
  return `${layer === undefined ? '' : `model.layers.${layer}.`}${found}.${ending}`;
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

/** The number that GGUF files add to a tensor's numbers: they store the gains of Gemma's norms, the weights plus 1. */
export const addedInFile = (name: string, family: string): number =>
  family === gemma3 && name.endsWith('norm.weight') ? 1 : 0;

/**
 * The heads of a matrix whose rows lie in another order in files of the architecture `llama`: there, the two halves of
 * each head take turns, because llama.cpp turns neighbouring elements. Null for all others.
 */
export function interleavedHeads(
  name: string,
  { family, heads, keyValueHeads }: { family: string; heads: number; keyValueHeads: number },
): number | null {
  if (family !== 'llama') return null;
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
