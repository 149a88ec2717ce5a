import { type Code, f32x4, f64x2, i32 } from '../wasm/instructions.ts';
import { eachVector } from '../wasm/vectors.ts';
import { floatBytes } from '../wasm/wasm-memory.ts';
import { type FunctionWriter, type Local, type Locals, WasmModule } from '../wasm/wasm-module.ts';

/** Adam's decay of the averages of the gradient and of its square. */
export const decays = { first: 0.9, second: 0.99 } as const;
const epsilon = 1e-8;

/** Numbers that the functions take at once: the length of a vector is a multiple of it. */
export const vectorStep = 8;

/** Functions of WebAssembly over whole vectors. All arguments are addresses, and `end` is the one after the last element. */
export interface VectorFunctions {
  /** Adds `added` to `sum`. */
  add(sum: number, added: number, end: number): void;
  /** Adds up the squares of `vector` in float64; writes two numbers whose sum that is to `target`. */
  squares(vector: number, end: number, target: number): void;
  /** See `TrainedVector.update`. `factors`: the gradient's scale, the step size and the scale of the squares. */
  update(values: number, gradient: number, first: number, second: number, factors: number, end: number): void;
}

let vectorModule: WebAssembly.Module | undefined;

export function createVectorFunctions(memory: WebAssembly.Memory): VectorFunctions {
  vectorModule ??= compile();
  const { add, squares, update } = new WebAssembly.Instance(vectorModule, { environment: { memory } })
    .exports;
  return { add, squares, update } as VectorFunctions;
}

function compile(): WebAssembly.Module {
  const module = new WasmModule({ isShared: true });
  module.add('add', ['sum', 'added', 'end'], writeAdd);
  module.add('squares', ['vector', 'end', 'target'], writeSquares);
  module.add('update', ['values', 'gradient', 'first', 'second', 'factors', 'end'], writeUpdate);
  return new WebAssembly.Module(module.finish());
}

function writeAdd(code: FunctionWriter, { sum, added, end }: Locals<'sum' | 'added' | 'end'>): void {
  eachVector(code, sum, end.get, () => {
    code.do(f32x4.store(sum.get, 0, f32x4.add(f32x4.load(sum.get), f32x4.load(added.get))));
    code.do(code.advance(added, 4 * floatBytes));
  });
}

function writeSquares(
  code: FunctionWriter,
  { vector, end, target }: Locals<'vector' | 'end' | 'target'>,
): void {
  const sums = code.locals(vectorStep / 2, 'v128');
  const pair = code.local('v128');
  code.repeat(() => {
    for (const [index, sum] of sums.entries()) {
      code.do(pair.set(f64x2.loadFloats(vector.get, index * 2 * floatBytes)));
      code.do(sum.set(f64x2.add(sum.get, f64x2.multiply(pair.get, pair.get))));
    }
    code.do(code.advance(vector, vectorStep * floatBytes));
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
    code.local('v128', f32x4.loadAll(factors.get, index * floatBytes)),
  ) as [Local, Local, Local];
  const [slope, mean, square] = code.locals(3, 'v128') as [Local, Local, Local];
  const { multiply, constant, load } = f32x4;
  const average = (decay: number, old: Code, value: Code) =>
    code.multiplyAdd(old, constant(decay), multiply(value, constant(1 - decay)));
  eachVector(code, values, end.get, () => {
    code.do(slope.set(multiply(load(gradient.get), scale.get)));
    code.do(mean.set(average(decays.first, load(first.get), slope.get)));
    code.do(square.set(average(decays.second, load(second.get), multiply(slope.get, slope.get))));
    const root = f32x4.root(multiply(square.get, squareScale.get));
    const change = f32x4.divide(multiply(mean.get, stepSize.get), f32x4.add(root, constant(epsilon)));
    code.do(f32x4.store(first.get, 0, mean.get), f32x4.store(second.get, 0, square.get));
    code.do(f32x4.store(values.get, 0, f32x4.subtract(load(values.get), change)));
    for (const vector of [gradient, first, second]) code.do(code.advance(vector, 4 * floatBytes));
  });
}
