import { EngineError } from '../../engine.ts';
import type { GradientSum } from '../runner/adapter-vector.ts';
import { freeAll } from '../runtime.ts';
import { createMemory, floatBytes, Layout, mostMemoryBytes } from '../wasm/wasm-memory.ts';
import type { OptimizerState } from '../weights/checkpoint-files.ts';
import { createVectorFunctions, decays, type VectorFunctions, vectorStep } from './vector-functions.ts';

/** Most elements that are copied into the memory at once. */
const stagedElements = 2 ** 20;

/**
 * What a job trains, as one flat vector, with its gradient and Adam's state, in a memory of WebAssembly that threads
 * share: its functions go over millions of numbers at the speed of the memory.
 */
export class TrainedVector implements GradientSum {
  /** The values that are trained. Other threads may read them. */
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
    const padded = Math.ceil(values.length / vectorStep) * vectorStep;
    const layout = new Layout();
    const place = (elements: number) => ({ address: layout.add(elements), elements });
    const parts = {
      values: place(padded),
      gradient: place(padded),
      first: place(padded),
      second: place(padded),
      staged: place(Math.min(padded, stagedElements)),
      factors: place(vectorStep),
      squares: place(vectorStep),
    };
    if (layout.end > mostMemoryBytes)
      throw new EngineError(
        'too_large',
        `Training needs ${(layout.end / 1e9).toFixed(1)} GB for ${values.length} values, and has at most 4 GB. Train an adapter with a lower rank, or an adapter instead of all weights.`,
      );
    const memory = createMemory(layout.end, { isShared: true });
    const floats = ({ address, elements }: ReturnType<typeof place>) =>
      new Float32Array(memory.buffer, address, elements);
    this.values = floats(parts.values).subarray(0, values.length);
    this.#gradient = floats(parts.gradient);
    this.#first = floats(parts.first);
    this.#second = floats(parts.second);
    this.#staged = floats(parts.staged);
    this.#factors = floats(parts.factors);
    this.#squares = new Float64Array(memory.buffer, parts.squares.address, 2);
    this.#functions = createVectorFunctions(memory);
    this.values.set(values);
    if (optimizer) {
      this.#first.set(optimizer.first);
      this.#second.set(optimizer.second);
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

  add(offset: number, added: Float32Array): void {
    const capacity = this.#staged.length;
    for (let start = 0; start < added.length; start += capacity)
      this.#addStaged(offset + start, added.subarray(start, start + capacity));
    freeAll([added]);
  }

  addRows(rows: Float32Array, width: number, places: Int32Array): void {
    if (width % 4 !== 0) throw new Error(`rows of ${width} are no vectors`);
    const gradient = this.#gradient.byteOffset;
    const most = Math.floor(this.#staged.length / width);
    let [staged, first, end] = [0, 0, 0];
    for (let at = 0; at < places.length; at += 2) {
      const row = places[at] as number;
      if (row >= end) {
        [first, end] = [row, row + most];
        staged = this.#stage(rows.subarray(first * width, end * width));
      }
      const sum = gradient + (places[at + 1] as number) * floatBytes;
      this.#functions.add(sum, staged + (row - first) * width * floatBytes, sum + width * floatBytes);
    }
    freeAll([rows]);
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
    const stepSize = learningRate / (1 - decays.first ** this.#updates);
    const squareScale = 1 / (1 - decays.second ** this.#updates);
    this.#factors.set([scale, stepSize, squareScale]);
    const values = this.values.byteOffset;
    this.#functions.update(
      values,
      this.#gradient.byteOffset,
      this.#first.byteOffset,
      this.#second.byteOffset,
      this.#factors.byteOffset,
      values + this.#gradient.byteLength,
    );
  }

  #addStaged(offset: number, added: Float32Array): void {
    const rest = added.length % 4;
    const sum = this.#gradient.byteOffset + offset * floatBytes;
    const staged = this.#stage(added);
    const end = sum + (added.length - rest) * floatBytes;
    if (end > sum) this.#functions.add(sum, staged, end);
    for (let index = added.length - rest; index < added.length; index++)
      this.#gradient[offset + index] = (this.#gradient[offset + index] as number) + (added[index] as number);
  }

  #stage(elements: Float32Array): number {
    this.#staged.set(elements);
    return this.#staged.byteOffset;
  }
}
