import { type Adapter, adapterTensors } from '../checkpoint/adapter.ts';
import { checkpointTensors } from '../checkpoint/tensors.ts';
import { Random } from '../random.ts';
import {
  type Architecture,
  elementsOf,
  type NamedShape,
  type TensorShape,
  vectorLength,
} from '../weights/architecture.ts';

/** What decides the shape and the effect of an adapter. */
export type LoraSettings = Pick<Adapter, 'rank' | 'alpha' | 'targets'>;

/** What training changes of a checkpoint: an adapter beside its weights, or all weights. */
export type Trained = LoraSettings | 'all';

/** The tensors that are trained as parts of one flat vector, which is what the optimizer updates. */
export const trainedShapes = (architecture: Architecture, trained: Trained): TensorShape[] =>
  trained === 'all' ? inOneVector(checkpointTensors(architecture)) : adapterShapes(architecture, trained);

/** Most values of a flat vector: with the gradient and Adam's averages they are 4 GB, all that a memory can have. */
export const mostTrainedValues = 268_000_000;

/** Where the gradient of the flat vector is added up. Arrays that are added belong to the sum then, which may free them. */
export interface GradientSum {
  /** Adds to the elements from an offset on. */
  add(offset: number, added: Float32Array): void;
  /**
   * Adds rows of the same width. `places`: by turns the index of a row, which never falls, and the offset at which it is
   * added. Both may come again.
   */
  addRows(rows: Float32Array, width: number, places: Int32Array): void;
}

/**
 * Keeps added values, to add them to another sum later in the same order, because sums are rounded. It can be sent to
 * another thread.
 */
export class PartialSum implements GradientSum {
  readonly parts: (
    | { offset: number; added: Float32Array }
    | { rows: Float32Array; width: number; places: Int32Array }
  )[] = [];

  add(offset: number, added: Float32Array): void {
    this.parts.push({ offset, added });
  }

  addRows(rows: Float32Array, width: number, places: Int32Array): void {
    this.parts.push({ rows, width, places });
  }
}

/** Adds the parts of a `PartialSum`, which then belong to `sum`. */
export function addParts(sum: GradientSum, parts: PartialSum['parts']): void {
  for (const part of parts) {
    if ('added' in part) sum.add(part.offset, part.added);
    else sum.addRows(part.rows, part.width, part.places);
  }
}

/** The tensors of an adapter in a flat vector. */
export const adapterShapes = (architecture: Architecture, lora: LoraSettings): TensorShape[] =>
  inOneVector(adapterTensors(architecture, lora));

function inOneVector(tensors: readonly NamedShape[]): TensorShape[] {
  let offset = 0;
  return tensors.map(({ name, dimensions }) => {
    const size = elementsOf(dimensions);
    const shape = { name, dimensions, offset, size };
    offset += size;
    return shape;
  });
}

/** An adapter with uniform values in +-1 / sqrt(inputs). `isZero`: the tensors that are 0. */
export function randomAdapter(
  shapes: readonly TensorShape[],
  seed: number,
  isZero: (name: string) => boolean = () => false,
): Float32Array {
  const random = new Random(seed);
  const vector = new Float32Array(vectorLength(shapes));
  for (const { name, dimensions, offset, size } of shapes) {
    if (isZero(name)) continue;
    const bound = 1 / Math.sqrt(dimensions[1] ?? 1);
    for (let index = 0; index < size; index++) vector[offset + index] = bound * (2 * random.uniform() - 1);
  }
  return vector;
}

/** The flat vector of an adapter, in shared memory. */
export function adapterVector(architecture: Architecture, adapter: Adapter): Float32Array {
  const shapes = adapterShapes(architecture, adapter);
  const length = vectorLength(shapes);
  const vector = new Float32Array(new SharedArrayBuffer(length * 4));
  for (const { name, offset } of shapes) vector.set(adapter.tensors.get(name) as Float32Array, offset);
  return vector;
}
