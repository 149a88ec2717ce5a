import {
  embeddingTensor,
  headTensor,
  kernelPart,
  layerTensorName,
  layerTensors,
  projectionsOf,
} from '../checkpoint/tensors.ts';
import type { Feeds, Runtime } from '../runtime.ts';
import { type Architecture, kindOf, type TensorShape } from '../weights/architecture.ts';
import { adapterShapes, type LoraSettings, type Trained, trainedShapes } from './adapter-vector.ts';

/** A checkpoint's weights by their names in the files. */
export interface BaseWeights {
  architecture: Architecture;
  weights: ReadonlyMap<string, Float32Array>;
}

/** The matrix of the head, in the files. */
export const headOf = ({ tiedEmbeddings }: Architecture): string =>
  tiedEmbeddings ? embeddingTensor : headTensor;

/** A tensor of a checkpoint by its name in the files. */
export function weightOf({ weights }: BaseWeights, name: string): Float32Array {
  const data = weights.get(name);
  if (!data) throw new Error(`the checkpoint has no tensor ${name}`);
  return data;
}

/** A layer's weights in the files as inputs of the graphs, under the names of `LayerTensor.part`. */
export const weightFeeds = (runtime: Runtime, base: BaseWeights, layer: number): Feeds =>
  Object.fromEntries(
    layerTensors(base.architecture, layer).map(({ part, name, dimensions }) => [
      part,
      runtime.constant(weightOf(base, name), dimensions),
    ]),
  );

/** The kernels of each layer's convolution, [width, taps]; null for a layer without one. */
export const kernelsOf = (base: BaseWeights): (Float32Array | null)[] =>
  Array.from({ length: base.architecture.layers }, (_, layer) =>
    kindOf(base.architecture, layer) === 'convolution'
      ? weightOf(base, `${layerTensorName(base.architecture, layer, kernelPart)}.weight`)
      : null,
  );

/** A trained tensor of a layer in the flat vector, and the input of the graphs that it is. */
export interface TrainedTensor extends TensorShape {
  input: string;
}

export function trainedTensors(architecture: Architecture, trained: Trained): TrainedTensor[][] {
  const layers = [...new Array(architecture.layers).keys()];
  if (trained !== 'all') return layers.map((layer) => adapterParts(architecture, trained, layer));
  const shapes = new Map(trainedShapes(architecture, trained).map((shape) => [shape.name, shape]));
  return layers.map((layer) =>
    layerTensors(architecture, layer).map(({ part, name }) => ({
      ...(shapes.get(name) as TensorShape),
      input: part,
    })),
  );
}

/** The adapter's tensors in a layer, each with its name in the graphs: `<projection>.A` or `<projection>.B`. */
export function adapterParts(architecture: Architecture, lora: LoraSettings, layer: number): TrainedTensor[] {
  const shapes = new Map(adapterShapes(architecture, lora).map((shape) => [shape.name, shape]));
  return projectionsOf(architecture, kindOf(architecture, layer))
    .filter((projection) => lora.targets.includes(projection))
    .flatMap((projection) =>
      ['A', 'B'].map((part) => {
        const name = `${layerTensorName(architecture, layer, projection)}.lora_${part}.weight`;
        return { ...(shapes.get(name) as TensorShape), input: `${projection}.${part}` };
      }),
    );
}

/** Parts of a flat vector as inputs of the graphs. */
export const partFeeds = (runtime: Runtime, parts: readonly TrainedTensor[], vector: Float32Array): Feeds =>
  Object.fromEntries(
    parts.map(({ input, offset, size, dimensions }) => [
      input,
      runtime.float(vector.subarray(offset, offset + size), dimensions),
    ]),
  );
