import { eachVector } from '../wasm/vectors.ts';
import { createMemory, Layout } from '../wasm/wasm-memory.ts';
import {
  type Code,
  type FunctionWriter,
  f32x4,
  f64x2,
  i32,
  type Local,
  type Locals,
  WasmModule,
} from '../wasm/wasm-module.ts';
import type { OptimizerState } from '../weights/checkpoint-files.ts';

/** Decays of Adam's averages of the gradient and of its square. */
const [firstDecay, secondDecay] = [0.9, 0.99];
const epsilon = 1e-8;

/** Bytes of a number. */
const size = 4;
/** Numbers that the functions take at once; vectors end with zeros. */
const step = 8;

/** Most elements that are copied into the memory at once. */
const stagedElements = 2 ** 20;

/** The functions. All arguments are addresses, and `end` is the one after the last element. */
interface VectorFunctions {
  /** Adds `added` to `sum`. */
  add(sum: number, added: number, end: number): void;
  /** Adds up the squares of `vector` in float64; writes two numbers whose sum that is to `target`. */
  squares(vector: number, end: number, target: number): void;
  /** See `TrainedVector.update`. `factors`: the gradient's scale, the step size and the scale of the squares. */
  update(values: number, gradient: number, first: number, second: number, factors: number, end: number): void;
}

/**
 * What a job trains, as one flat vector, with its gradient and Adam's state, in a memory of WebAssembly that threads
 * share: its functions go over millions of numbers at the speed of the memory.
 */
export class TrainedVector {
  /** Of what is trained. Other threads may read it. */
  readonly values: Float32Array;
  readonly #gradient: Float32Array;
  readonly #first: Float32Array;
  readonly #second: Float32Array;
  readonly #staged: Float32Array;
  readonly #factors: Float32Array;
  readonly #squares: Float64Array;
  readonly #functions: VectorFunctions;
  #updates: number;

  /**
   * `optimizer`: Adam's state; null for a fresh one. Throws an `EngineError` if there is no memory, and for more than 268
   * million values, which would be more than 4 GB with the gradient and Adam's averages.
   */
  constructor(values: Float32Array, optimizer: OptimizerState | null) {
    const padded = Math.ceil(values.length / step) * step;
    const layout = new Layout();
    const parts = [padded, padded, padded, padded, Math.min(padded, stagedElements), step, step] as const;
    const addresses = parts.map((elements) => layout.add(elements));
    const memory = createMemory(layout.end, { isShared: true });
    const [all, gradient, first, second, staged, factors, squares] = parts.map(
      (elements, index) => new Float32Array(memory.buffer, addresses[index], elements),
    ) as [Float32Array, Float32Array, Float32Array, Float32Array, Float32Array, Float32Array, Float32Array];
    this.values = all.subarray(0, values.length);
    this.#gradient = gradient;
    this.#first = first;
    this.#second = second;
    this.#staged = staged;
    this.#factors = factors;
    this.#squares = new Float64Array(memory.buffer, squares.byteOffset, 2);
    this.#functions = new WebAssembly.Instance(compiled(), { environment: { memory } })
      .exports as unknown as VectorFunctions;
    this.values.set(values);
    if (optimizer) {
      first.set(optimizer.first);
      second.set(optimizer.second);
    }
    this.#updates = optimizer?.updates ?? 0;
  }

  /** Adam's state, which the next update changes. */
  get optimizer(): OptimizerState {
    const { length } = this.values;
    return {
      first: this.#first.subarray(0, length),
      second: this.#second.subarray(0, length),
      updates: this.#updates,
    };
  }

  /** The sum of what was added since `clearGradient`, or since the beginning. */
  get gradient(): Float32Array {
    return this.#gradient.subarray(0, this.values.length);
  }

  clearGradient(): void {
    this.#gradient.fill(0);
  }

  /** Adds to the gradient from an element on. */
  add(offset: number, added: Float32Array): void {
    const capacity = this.#staged.length;
    for (let start = 0; start < added.length; start += capacity)
      this.#addStaged(offset + start, added.subarray(start, start + capacity));
  }

  /**
   * Adds rows [rows, width] to the gradient, each at the places that `add` is called with, one after another. They must
   * have at most as many elements as the vector, and 1,048,576.
   */
  addRows(
    rows: Float32Array,
    width: number,
    place: (add: (row: number, offset: number) => void) => void,
  ): void {
    const staged = this.#stage(rows);
    const gradient = this.#gradient.byteOffset;
    if (width % 4 !== 0) throw new Error(`rows of ${width} are no vectors`);
    place((row, offset) => {
      const sum = gradient + offset * size;
      this.#functions.add(sum, staged + row * width * size, sum + width * size);
    });
  }

  /** The length of the gradient. */
  gradientNorm(): number {
    const { byteOffset, byteLength } = this.#gradient;
    this.#functions.squares(byteOffset, byteOffset + byteLength, this.#squares.byteOffset);
    const [even = 0, odd = 0] = this.#squares;
    return Math.sqrt(even + odd);
  }

  /**
   * One update of Adam (Kingma and Ba 2015, arXiv:1412.6980, algorithm 1) with decays 0.9 and 0.99. `scale` multiplies the
   * gradient first.
   */
  update({ learningRate, scale }: { learningRate: number; scale: number }): void {
    this.#updates++;
    // Both bias corrections, which are the same for all elements.
    const stepSize = learningRate / (1 - firstDecay ** this.#updates);
    const squareScale = 1 / (1 - secondDecay ** this.#updates);
    this.#factors.set([scale, stepSize, squareScale]);
    const [values, gradient, first, second, factors] = [
      this.values,
      this.#gradient,
      this.#first,
      this.#second,
      this.#factors,
    ].map(({ byteOffset }) => byteOffset) as [number, number, number, number, number];
    this.#functions.update(values, gradient, first, second, factors, values + this.#gradient.byteLength);
  }

  #addStaged(offset: number, added: Float32Array): void {
    const rest = added.length % 4;
    const sum = this.#gradient.byteOffset + offset * size;
    const staged = this.#stage(added);
    const end = sum + (added.length - rest) * size;
    if (end > sum) this.#functions.add(sum, staged, end);
    for (let index = added.length - rest; index < added.length; index++)
      this.#gradient[offset + index] = (this.#gradient[offset + index] as number) + (added[index] as number);
  }

  #stage(elements: Float32Array): number {
    this.#staged.set(elements);
    return this.#staged.byteOffset;
  }
}

let vectorModule: WebAssembly.Module | undefined;

function compiled(): WebAssembly.Module {
  if (vectorModule) return vectorModule;
  const module = new WasmModule({ isShared: true });
  module.add('add', ['sum', 'added', 'end'], writeAdd);
  module.add('squares', ['vector', 'end', 'target'], writeSquares);
  module.add('update', ['values', 'gradient', 'first', 'second', 'factors', 'end'], writeUpdate);
  vectorModule = new WebAssembly.Module(module.finish());
  return vectorModule;
}

function writeAdd(code: FunctionWriter, { sum, added, end }: Locals<'sum' | 'added' | 'end'>): void {
  eachVector(code, sum, end.get, () => {
    code.do(f32x4.store(sum.get, 0, f32x4.add(f32x4.load(sum.get), f32x4.load(added.get))));
    code.do(code.advance(added, 4 * size));
  });
}

function writeSquares(
  code: FunctionWriter,
  { vector, end, target }: Locals<'vector' | 'end' | 'target'>,
): void {
  const sums = code.locals(step / 2, 'v128');
  const pair = code.local('v128');
  code.repeat(() => {
    for (const [index, sum] of sums.entries()) {
      code.do(pair.set(f64x2.loadFloats(vector.get, index * 2 * size)));
      code.do(sum.set(f64x2.add(sum.get, f64x2.multiply(pair.get, pair.get))));
    }
    code.do(code.advance(vector, step * size));
    return i32.differs(vector.get, end.get);
  });
  code.do(f64x2.store(target.get, 0, sums.map(({ get }) => get).reduce(f64x2.add)));
}

function writeUpdate(
  code: FunctionWriter,
  given: Locals<'values' | 'gradient' | 'first' | 'second' | 'factors' | 'end'>,
): void {
  const { values, gradient, first, second, factors, end } = given;
  const [scale, stepSize, squareScale] = [0, 1, 2].map((index) =>
    code.local('v128', f32x4.loadAll(factors.get, index * size)),
  ) as [Local, Local, Local];
  const [slope, mean, square] = code.locals(3, 'v128') as [Local, Local, Local];
  const { multiply, constant, load } = f32x4;
  const average = (decay: number, old: Code, value: Code) =>
    code.multiplyAdd(old, constant(decay), multiply(value, constant(1 - decay)));
  eachVector(code, values, end.get, () => {
    code.do(slope.set(multiply(load(gradient.get), scale.get)));
    code.do(mean.set(average(firstDecay, load(first.get), slope.get)));
    code.do(square.set(average(secondDecay, load(second.get), multiply(slope.get, slope.get))));
    const root = f32x4.root(multiply(square.get, squareScale.get));
    const change = f32x4.divide(multiply(mean.get, stepSize.get), f32x4.add(root, constant(epsilon)));
    code.do(f32x4.store(first.get, 0, mean.get), f32x4.store(second.get, 0, square.get));
    code.do(f32x4.store(values.get, 0, f32x4.subtract(load(values.get), change)));
    for (const vector of [gradient, first, second]) code.do(code.advance(vector, 4 * size));
  });
}
