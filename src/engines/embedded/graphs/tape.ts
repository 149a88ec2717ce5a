import type { Value } from '../onnx/graph.ts';
import { type Architecture, headWidth } from '../weights/architecture.ts';

/** What a layer's forward pass leaves for its backward pass. */
export interface LayerTape {
  input: Value;
  attentionInverse: Value;
  query: Value;
  key: Value;
  value: Value;
  attention: Value;
  mixed: Value;
  middle: Value;
  mlpInverse: Value;
  hidden: Value;
}

/** What the head's forward pass leaves. */
export interface HeadTape {
  last: Value;
  finalInverse: Value;
}

/** Shapes of the tape's tensors, to hand them from one graph to the other. */
export function tapeShapes(architecture: Architecture): {
  layer: (layer: number) => Record<keyof LayerTape, (string | number)[]>;
  head: Record<keyof HeadTape, (string | number)[]>;
} {
  const { width, heads, expansion, layers } = architecture;
  return {
    layer: (layer) => {
      const [places, steps] = layer === layers - 1 ? ['rows', 'picks'] : ['tokens', 'time'];
      const byHead = ['batch', heads, 'time', headWidth(architecture)];
      return {
        input: ['tokens', width],
        attentionInverse: ['tokens', 1],
        query: ['batch', heads, steps, headWidth(architecture)],
        key: byHead,
        value: byHead,
        attention: ['batch', heads, steps, 'time'],
        mixed: [places, width],
        middle: [places, width],
        mlpInverse: [places, 1],
        hidden: [places, expansion * width],
      };
    },
    head: { last: ['rows', width], finalInverse: ['rows', 1] },
  };
}

/** The name and the shape of every tensor of the tape. */
export function tapeNames(architecture: Architecture): { name: string; shape: (string | number)[] }[] {
  const { layer, head } = tapeShapes(architecture);
  const names = Object.entries(head).map(([part, shape]) => ({ name: `tape.${part}`, shape }));
  for (let index = 0; index < architecture.layers; index++)
    for (const [part, shape] of Object.entries(layer(index)))
      names.push({ name: `tape.${index}.${part}`, shape });
  return names;
}
