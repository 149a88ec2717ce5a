import type { Dimensions } from '../onnx/graph.ts';
import { type Architecture, isGated, type LayerKind } from '../weights/architecture.ts';
import type { AttentionTape } from './attention.ts';
import type { CommonTape, ConvolutionTape } from './layer.ts';

/** Attention of longer contexts is computed again: it takes more memory than time. */
const longestKeptAttention = 1024;

/** The input is kept in any case. */
export type KeptPart = Exclude<keyof CommonTape | keyof AttentionTape | keyof ConvolutionTape, 'input'>;

/** The symbolic dimensions of a batch of rows of `time` tokens, of which a layer computes `steps`. */
export function lengthsOf(
  { heads, keyValueHeads }: Architecture,
  { sequences: batch, time, steps = time }: { sequences: number; time: number; steps?: number | undefined },
): Record<string, number> {
  const queries = (heads / keyValueHeads) * steps;
  return { batch, time, steps, queries, tokens: batch * time, picked: batch * steps };
}

/** A shape with numbers in place of the symbolic dimensions. */
export const sized = (dimensions: Dimensions, lengths: Record<string, number>): number[] =>
  dimensions.map((length) => (typeof length === 'string' ? (lengths[length] as number) : length));

/** Shapes of what a layer's forward pass keeps for the backward pass. Each value's name in the graphs is `tape.<part>`. */
export function keptShapes(
  architecture: Architecture,
  { kind, selects }: { kind: LayerKind; selects: boolean },
): Map<KeptPart, Dimensions> {
  const { width, heads, keyValueHeads, headWidth, mlpWidth, queryKeyNorm, contextLength } = architecture;
  const [picked, steps] = selects ? ['picked', 'steps'] : ['tokens', 'time'];
  const keys = ['batch', keyValueHeads, 'time', headWidth];
  const mixes: [KeptPart, Dimensions][] =
    kind === 'convolution'
      ? [
          ['projected', ['tokens', 3 * width]],
          ['mixed', ['tokens', width]],
        ]
      : [
          ['query', ['batch', keyValueHeads, 'queries', headWidth]],
          ['key', keys],
          ['value', keys],
          ['mixed', [picked, heads * headWidth]],
        ];
  const shapes = new Map<KeptPart, Dimensions>([
    ['attentionInverse', ['tokens', 1]],
    ...mixes,
    ['middle', [picked, width]],
    ['mlpInverse', [picked, 1]],
    ['hidden', [picked, mlpWidth]],
  ]);
  if (kind === 'attention' && contextLength <= longestKeptAttention)
    shapes.set('attention', ['batch', keyValueHeads, 'queries', 'time']);
  if (isGated(architecture)) shapes.set('gate', [picked, mlpWidth]);
  if (architecture.outputNorms)
    shapes
      .set('rawAttention', [picked, width])
      .set('rawAttentionInverse', [picked, 1])
      .set('rawMlp', [picked, width])
      .set('rawMlpInverse', [picked, 1]);
  if (queryKeyNorm && kind === 'attention')
    shapes
      .set('rawQuery', ['batch', heads, steps, headWidth])
      .set('queryInverse', ['batch', heads, steps, 1])
      .set('rawKey', keys)
      .set('keyInverse', ['batch', keyValueHeads, 'time', 1]);
  return shapes;
}
