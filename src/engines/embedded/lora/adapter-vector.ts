import { type Adapter, adapterTensors } from '../checkpoint/adapter.ts';
import type { Architecture, TensorShape } from '../weights/architecture.ts';

/** What decides the shape and the effect of an adapter. */
export type LoraSettings = Pick<Adapter, 'rank' | 'alpha' | 'targets'>;

/** The tensors of an adapter as parts of one flat vector, which is what the optimizer updates. */
export function adapterShapes(architecture: Architecture, lora: LoraSettings): TensorShape[] {
  let offset = 0;
  return adapterTensors(architecture, lora).map(({ name, dimensions }) => {
    const size = dimensions.reduce((product, dimension) => product * dimension, 1);
    const shape = { name, dimensions: [...dimensions], offset, size };
    offset += size;
    return shape;
  });
}

/** The flat vector of an adapter, in shared memory. */
export function adapterVector(architecture: Architecture, adapter: Adapter): Float32Array {
  const shapes = adapterShapes(architecture, adapter);
  const length = shapes.reduce((sum, { size }) => sum + size, 0);
  const vector = new Float32Array(new SharedArrayBuffer(length * 4));
  for (const { name, offset } of shapes) vector.set(adapter.tensors.get(name) as Float32Array, offset);
  return vector;
}
