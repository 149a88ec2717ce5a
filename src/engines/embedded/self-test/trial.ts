import { EngineError } from '../../engine.ts';
import { layerTensors } from '../checkpoint/tensors.ts';
import type { AttentionKind } from '../graphs/decoding-graphs.ts';
import { adapterShapes, type LoraSettings, randomAdapter } from '../runner/adapter-vector.ts';
import type { BaseWeights } from '../runner/layer-feeds.ts';
import type { Runtime } from '../runtime.ts';
import { kindOf, kindsOf, type NamedShape, vectorLength } from '../weights/architecture.ts';
import { type ExactRun, runExactly } from './exact-model.ts';

/** Rows of the embedding and of the head that are used. */
const testedVocabulary = 512;
/** The sequence of the test. The ids do not matter, but their embeddings must differ. */
export const tokens = [1, 5, 2, 9];

/** Largest difference from the exact values, relative to their root mean square. */
const tolerance = 1e-4;
/**
 * What a score of attention adds to it, because its rounding error is the relative one of its probability, and what the
 * ratio of a gradient's terms to their sum adds. Rounding errors of random models of many sizes are below half of these.
 */
const [tolerancePerScore, tolerancePerCancellation] = [1e-5, 2e-5];
/** A gradient whose terms are this much larger than their sum is only rounding errors. */
const largestCancellation = 1e6;

/** Rank of the test's adapter: of any rank the graphs are the same, but with few the rounding errors are large. */
const testedRank = 16;

/** A checkpoint, and how it would be trained. */
export interface TestedModel extends BaseWeights {
  id: string;
  lora: LoraSettings;
}

/** An adapter as one flat vector: see `adapterShapes`. */
interface AdapterVector {
  lora: LoraSettings;
  vector: Float32Array;
}

/** A part of a checkpoint, with an adapter, and what it computes exactly. */
interface TestedPart {
  base: BaseWeights;
  adapter: AdapterVector;
  exact: ExactRun;
}

export interface TrialOptions {
  /** The kind that the whole checkpoint has: its first layers alone might have another. */
  attention: AttentionKind;
  signal?: AbortSignal | undefined;
}

type Values = readonly ArrayLike<number>[];

/** What both tests of a checkpoint share. */
export class Trial {
  readonly runtime: Runtime;
  readonly attention: AttentionKind;
  readonly #signal: AbortSignal | undefined;
  readonly #model: TestedModel;
  readonly #adapter: AdapterVector;
  /** With one layer, and with two. */
  readonly #runs: readonly ExactRun[];

  constructor(runtime: Runtime, model: TestedModel, { attention, signal }: TrialOptions) {
    this.runtime = runtime;
    this.attention = attention;
    this.#signal = signal;
    this.#model = model;
    const scale = model.lora.alpha / model.lora.rank;
    const lora = { ...model.lora, rank: testedRank, alpha: scale * testedRank };
    const base = firstPart(model, 2);
    const shapes = adapterShapes(base.architecture, lora);
    // Both its matrices change the result.
    const vector = randomAdapter(shapes, 7);
    this.#adapter = { lora, vector };
    const tensors = shapes.map(
      ({ name, offset, size }) => [name, vector.subarray(offset, offset + size)] as const,
    );
    this.#runs = runExactly(base, { lora, adapter: new Map(tensors) }, tokens);
    if (this.#runs.some(({ logits }) => logits.some((row) => !row.every(Number.isFinite))))
      throw new EngineError(
        'bad_checkpoint',
        `${model.id}: its first layers give logits that are not finite, so weights are NaN or infinite. Fetch the checkpoint again.`,
      );
  }

  get kinds(): 1 | 2 {
    return kindsOf(this.#model.architecture).length === 1 ? 1 : 2;
  }

  /** The first layers, one or two. */
  part(layers: 1 | 2): TestedPart {
    const base = firstPart(this.#model, layers);
    const { lora, vector } = this.#adapter;
    const size = vectorLength(adapterShapes(base.architecture, lora));
    const exact = this.#runs[base.architecture.layers - 1] as ExactRun;
    return { base, adapter: { lora, vector: vector.subarray(0, size) }, exact };
  }

  /** Refuses the part if any row of values differs too much. */
  compare(part: string, actual: Values, expected: Values, exact: ExactRun): void {
    for (const [row, values] of expected.entries())
      this.refuseAbove(part, largestDifference(actual[row] ?? [], values), allowed(exact));
  }

  /** `cancellation`: how much larger the terms of the gradient are than their sum. */
  compareGradient(
    part: string,
    actual: ArrayLike<number>,
    expected: ArrayLike<number>,
    { exact, cancellation }: { exact: ExactRun; cancellation: number },
  ): void {
    if (cancellation > largestCancellation) return;
    const limit = allowed(exact) + cancellation * tolerancePerCancellation;
    this.refuseAbove(part, meanDifference(actual, expected), limit);
  }

  refuseAbove(part: string, difference: number, limit: number): void {
    this.#signal?.throwIfAborted();
    // NaN is refused too.
    if (difference <= limit) return;
    const [found, most] = [difference, limit].map((value) => value.toExponential(1));
    throw new WrongNumbers(
      `${part} differ by ${found} of their size from a computation in float64, and ${most} is allowed`,
    );
  }
}

/** What a runtime computed differs from the exact values. The message says in which part and by how much. */
export class WrongNumbers extends Error {}

export const allowed = ({ largestScore }: ExactRun) => tolerance + tolerancePerScore * largestScore;

/**
 * The first layer of a checkpoint, and as a second one the first that mixes positions in another way, or else the next,
 * with the first rows of its embedding and of its head: views of its weights.
 */
function firstPart({ architecture: whole, weights }: BaseWeights, layers: number): BaseWeights {
  const architecture = partOf(whole, layers);
  const cut = ['model.embed_tokens.weight', 'lm_head.weight'].flatMap((name) => {
    const table = weights.get(name)?.subarray(0, architecture.vocabularySize * architecture.width);
    return table ? [[name, table] as const] : [];
  });
  const second = architecture.layers > 1 ? layerTensors(whole, secondLayer(whole)) : [];
  const own = layerTensors(architecture, 1);
  const moved = second.flatMap(({ name }, index) => {
    const values = weights.get(name);
    return values ? [[(own[index] as NamedShape).name, values] as const] : [];
  });
  return { architecture, weights: new Map([...weights, ...cut, ...moved]) };
}

function secondLayer(whole: BaseWeights['architecture']): number {
  const kinds = Array.from({ length: whole.layers }, (_, layer) => kindOf(whole, layer));
  return Math.max(
    1,
    kinds.findIndex((kind) => kind !== kinds[0]),
  );
}

/** The architecture of that part. */
export function partOf(whole: BaseWeights['architecture'], layers: number): BaseWeights['architecture'] {
  const { convolutions, local } = whole;
  const tested = [0, secondLayer(whole)];
  const choose = (flags: readonly boolean[]) => tested.map((layer) => flags[layer] ?? false);
  return {
    ...whole,
    vocabularySize: Math.min(testedVocabulary, whole.vocabularySize),
    layers: Math.min(layers, whole.layers),
    contextLength: Math.min(tokens.length, whole.contextLength),
    convolutions: convolutions && { ...convolutions, layers: choose(convolutions.layers) },
    local: local && { ...local, layers: choose(local.layers) },
  };
}

export function rowsOf(values: Float32Array, width: number): Float32Array[] {
  return Array.from({ length: values.length / width }, (_, row) =>
    values.subarray(row * width, (row + 1) * width),
  );
}

/** The largest difference, relative to the root mean square of what is expected. NaN when values are missing. */
function largestDifference(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  let largest = 0;
  for (let index = 0; index < expected.length; index++)
    largest = Math.max(largest, Math.abs((actual[index] ?? Number.NaN) - (expected[index] as number)));
  return largest === 0 ? 0 : largest / rootMeanSquare(expected);
}

/** As `largestDifference`, with the root mean square of the differences: few of a gradient's values may be large. */
function meanDifference(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  const differences = Float64Array.from(expected, (value, index) => (actual[index] ?? Number.NaN) - value);
  const difference = rootMeanSquare(differences);
  return difference === 0 ? 0 : difference / rootMeanSquare(expected);
}

function rootMeanSquare(values: ArrayLike<number>): number {
  let squares = 0;
  for (let index = 0; index < values.length; index++) squares += (values[index] as number) ** 2;
  return Math.sqrt(squares / values.length);
}
