import { projectionName, projectionShape } from '../checkpoint/tensors.ts';
import { normsOf, projectionsOf } from '../graphs/lora-graphs.ts';
import type { Feeds, Runtime } from '../runtime.ts';
import type { Architecture } from '../weights/architecture.ts';
import { adapterShapes, type LoraSettings } from './adapter-vector.ts';

/** A checkpoint's weights by their names in the files. */
export interface LoraBase {
  architecture: Architecture;
  weights: ReadonlyMap<string, Float32Array>;
}

/** A LoRA adapter as one flat vector: see `adapterShapes`. */
export interface AdapterVector {
  lora: LoraSettings;
  vector: Float32Array;
}

/** A layer's frozen weights as inputs of the graphs: each under the name of its projection or norm, or `<name>.bias`. */
export function weightFeeds(runtime: Runtime, { architecture, weights }: LoraBase, layer: number): Feeds {
  const { headWidth, width, attentionBias } = architecture;
  const feeds: Feeds = {};
  const feed = (input: string, name: string, dimensions: readonly number[]) => {
    const data = weights.get(name);
    if (!data) throw new Error(`the checkpoint has no tensor ${name}`);
    feeds[input] = runtime.constant(data, dimensions);
  };
  for (const projection of projectionsOf(architecture)) {
    const shape = projectionShape(architecture, projection);
    const name = projectionName(layer, projection);
    feed(projection, `${name}.weight`, shape);
    if (attentionBias && ['q_proj', 'k_proj', 'v_proj'].includes(projection))
      feed(`${projection}.bias`, `${name}.bias`, [shape[0]]);
  }
  for (const norm of normsOf(architecture)) {
    const isPerHead = norm === 'q_norm' || norm === 'k_norm';
    const name = `model.layers.${layer}.${isPerHead ? 'self_attn.' : ''}${norm}.weight`;
    feed(norm, name, [isPerHead ? headWidth : width]);
  }
  return feeds;
}

/** The adapter's tensors in a layer, each with its name in the graphs: `<projection>.A` or `<projection>.B`. */
export function adapterParts(architecture: Architecture, lora: LoraSettings, layer: number) {
  const { targets } = lora;
  const count = targets.length * 2;
  return adapterShapes(architecture, lora)
    .slice(layer * count, (layer + 1) * count)
    .map((shape, index) => ({ ...shape, input: `${targets[index >> 1]}.${index % 2 === 0 ? 'A' : 'B'}` }));
}

/** A layer's part of an adapter's flat vector as inputs of the graphs. */
export function adapterFeeds(
  runtime: Runtime,
  architecture: Architecture,
  { lora, vector }: AdapterVector,
  layer: number,
): Feeds {
  return Object.fromEntries(
    adapterParts(architecture, lora, layer).map(({ input, offset, size, dimensions }) => [
      input,
      runtime.float(vector.subarray(offset, offset + size), dimensions),
    ]),
  );
}
