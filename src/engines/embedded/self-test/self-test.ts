import { EngineError } from '../../engine.ts';
import { adapterShapes, type LoraSettings } from '../lora/adapter-vector.ts';
import { HeadRunner } from '../lora/head-runner.ts';
import type { AdapterVector, LoraBase } from '../lora/layer-feeds.ts';
import { LayerRunner } from '../lora/layer-runner.ts';
import { Random } from '../random.ts';
import type { Runtime } from '../runtime.ts';
import { Decoder } from '../sampler/decoder.ts';
import { logprobAt, softmaxOf } from '../sampling/distribution.ts';
import { type ExactDecision, type ExactRun, runExactly } from './exact-model.ts';

/** Rows of the embedding and of the head that are used. */
const testedVocabulary = 512;
/** Their ids do not matter, but rows must differ. */
const tokens = [1, 5, 2, 9];

/** Largest difference from the exact values, relative to their root mean square. */
const tolerance = 1e-4;
/**
 * What a score of attention adds to it, because its rounding error is the relative one of its probability, and what the
 * ratio of a gradient's terms to their sum adds. Rounding errors are below a tenth of these.
 */
const [tolerancePerScore, tolerancePerCancellation] = [1e-6, 1e-6];

/** A checkpoint, and how it would be trained. */
export interface TestedModel extends LoraBase {
  id: string;
  lora: LoraSettings;
}

/**
 * Runs the graphs that sample from a checkpoint and train it, on its first layers and a few tokens, and compares all that
 * they give with the same in float64 (see `exact-model.ts`): logits, probabilities, entropies, states, and the gradients
 * of an adapter. A runtime that falls back to another device, or has a faulty operator, computes something else without
 * an error. Takes as long as a few dozen tokens.
 *
 * @throws EngineError (`self_test_failed`) that names the runtime, the part, the difference and a remedy.
 */
export async function selfTest(runtime: Runtime, model: TestedModel): Promise<void> {
  const test = new SelfTest(runtime, model);
  try {
    await test.sampling();
    await test.training();
  } catch (error) {
    if (EngineError.isInstance(error)) throw error;
    throw test.failure(`a graph cannot run: ${error instanceof Error ? error.message : String(error)}`);
  }
}

class SelfTest {
  readonly #runtime: Runtime;
  readonly #model: TestedModel;

  readonly #adapter: AdapterVector;
  readonly #exact: readonly ExactRun[];

  constructor(runtime: Runtime, model: TestedModel) {
    this.#runtime = runtime;
    this.#model = model;
    const { lora } = model;
    const base = firstPart(model, 2);
    this.#adapter = randomAdapter(base, lora);
    const tensors = adapterShapes(base.architecture, lora).map(
      ({ name, offset, size }) => [name, this.#adapter.vector.subarray(offset, offset + size)] as const,
    );
    this.#exact = runExactly(base, { lora, adapter: new Map(tensors) }, tokens);
    if (this.#exact.some(({ logits }) => logits.some((row) => !row.every(Number.isFinite))))
      throw new EngineError(
        'bad_checkpoint',
        `${model.id}: its first layers give logits that are not finite, so weights are NaN or infinite. Fetch the checkpoint again`,
      );
  }

  /**
   * A prompt beside a shorter one, then the next token alone, then one token of each. With two layers each graph runs,
   * also the one between two attentions.
   */
  async sampling(): Promise<void> {
    const base = firstPart(this.#model, 2);
    const exact = this.#exact.at(-1) as ExactRun;
    const { vocabularySize } = base.architecture;
    const all = Int32Array.from({ length: vocabularySize }, (_, id) => id);
    const decoder = await Decoder.ofCheckpoint(this.#runtime, base, this.#adapter);
    const chunk = (start: number, end: number) => ({ tokens, start, end });
    const runs = [
      { part: 'a prompt', chunks: [chunk(0, 3), chunk(0, 2)], everyToken: true, positions: [0, 1, 2, 0, 1] },
      { part: 'one token', chunks: [chunk(3, 4)], everyToken: false, positions: [3] },
      { part: 'two tokens', chunks: [chunk(3, 4), chunk(2, 3)], everyToken: false, positions: [3, 2] },
    ];
    try {
      decoder.cache.reserve(2, tokens.length, 0);
      for (const { part, chunks, everyToken, positions } of runs) {
        const rows = await decoder.run(0, chunks, { everyToken });
        const exactRows = positions.map((position) => exact.logits[position] as Float64Array);
        this.#compare(`sampling: logits of ${part}`, rowsOf(rows.logits, vocabularySize), exactRows, exact);
        const logprobs = exactRows.map((_, row) => {
          const distribution = softmaxOf(rows, row, all);
          return Float64Array.from(all, (token) =>
            distribution ? logprobAt(distribution, token) : Number.NaN,
          );
        });
        this.#compare(`sampling: log-probabilities of ${part}`, logprobs, exactRows.map(logSoftmax), exact);
      }
    } finally {
      await decoder.close();
    }
  }

  /** A sequence beside a shorter one, whose padding must change nothing. All layers run in the same graphs. */
  async training(): Promise<void> {
    const base = firstPart(this.#model, 1);
    const exact = this.#exact[0] as ExactRun;
    const { lora } = this.#model;
    const shapes = adapterShapes(base.architecture, lora);
    const size = shapes.reduce((sum, shape) => sum + shape.size, 0);
    const adapter = this.#adapter.vector.subarray(0, size);
    const { width, vocabularySize } = base.architecture;
    const decisions = someDecisions(vocabularySize);
    const loss = exact.learn(decisions);
    const compare = (
      part: string,
      actual: readonly ArrayLike<number>[],
      expected: readonly ArrayLike<number>[],
    ) => this.#compare(`training: ${part}`, actual, expected, exact);
    const layers = await LayerRunner.create(this.#runtime, base, lora);
    const head = await HeadRunner.create(this.#runtime, base);
    try {
      const batch = { sequences: [tokens, tokens.slice(0, 2)], time: tokens.length };
      const pass = await layers.forward(batch, adapter);
      const states = pass.states.at(-1)?.data as Float32Array;
      compare('states', rowsOf(states, width), [...exact.states, ...exact.states.slice(0, 2)]);
      const rows = [...tokens.keys()];
      const { logits } = await head.logits(states, rows);
      compare('logits', rowsOf(logits, vocabularySize), exact.logits);
      const plain = decisions.map(({ legal, ...decision }, row) => ({
        ...decision,
        row,
        legal: () => legal,
      }));
      const { logprobs, entropies } = await head.probabilities(states, plain);
      compare('log-probabilities', [logprobs], [loss.logprobs]);
      compare('entropies', [entropies], [loss.entropies]);
      const byLogits = new Float32Array(states.length);
      const slopes = Float32Array.from(loss.logitGradients.flatMap((row) => [...row]));
      await head.addLogitsGradient(states, rows, slopes, byLogits);
      compare('gradient by the logits', rowsOf(byLogits, width), loss.stateGradients);
      const gradient = new Float32Array(states.length);
      const own = {
        logprobs: decisions.map(({ slope }) => slope),
        entropies: decisions.map(({ entropySlope }) => entropySlope),
      };
      await head.addSlopes(states, plain, own, gradient);
      compare('gradient by the probabilities', rowsOf(gradient, width), loss.stateGradients);
      const total = new Float32Array(size);
      await layers.backward(pass, gradient, total);
      for (const { name, offset, size } of shapes) {
        const cancellation = loss.cancellations.get(name.replace(/\.lora_[AB]\.weight$/, '')) ?? 0;
        const found = meanDifference(
          total.subarray(offset, offset + size),
          loss.gradients.get(name) as Float64Array,
        );
        this.#refuseAbove(
          `training: gradient of ${name}`,
          found,
          allowed(exact) + cancellation * tolerancePerCancellation,
        );
      }
      // The layers without an adapter, which a KL penalty needs, and an adapter that changes nothing.
      const zero = await layers.forward(batch, new Float32Array(size));
      const none = await layers.forward(batch, null);
      const last = (of: typeof zero) => rowsOf(of.states.at(-1)?.data as Float32Array, width);
      compare('states without an adapter', last(none), last(zero));
    } finally {
      await layers.release();
      await head.release();
    }
  }

  #compare(
    part: string,
    actual: readonly ArrayLike<number>[],
    expected: readonly ArrayLike<number>[],
    exact: ExactRun,
  ): void {
    for (const [row, values] of expected.entries())
      this.#refuseAbove(part, largestDifference(actual[row] ?? [], values), allowed(exact));
  }

  #refuseAbove(part: string, difference: number, limit: number): void {
    // NaN is refused too.
    if (difference <= limit) return;
    const [found, most] = [difference, limit].map((value) => value.toExponential(1));
    throw this.failure(
      `${part} differ by ${found} of their size from a computation in float64, and ${most} is allowed`,
    );
  }

  failure(what: string): EngineError {
    return new EngineError(
      'self_test_failed',
      `${this.#model.id} was refused, because ${this.#runtime.name} computes it wrongly on this device. The self-test found, in ${what}. Choose another runtime (MARTINGALE_RUNTIME) or device, or run on another machine`,
    );
  }
}

const allowed = ({ largestScore }: ExactRun) => tolerance + tolerancePerScore * largestScore;

/** The first layers of a checkpoint, with the first rows of its embedding and of its head: views of its weights. */
function firstPart({ architecture: whole, weights }: LoraBase, layers: number): LoraBase {
  const architecture = {
    ...whole,
    vocabularySize: Math.min(testedVocabulary, whole.vocabularySize),
    layers: Math.min(layers, whole.layers),
    contextLength: Math.min(tokens.length, whole.contextLength),
  };
  const cut = ['model.embed_tokens.weight', 'lm_head.weight'].flatMap((name) => {
    const table = weights.get(name)?.subarray(0, architecture.vocabularySize * architecture.width);
    return table ? [[name, table] as const] : [];
  });
  return { architecture, weights: new Map([...weights, ...cut]) };
}

/** An adapter of which both matrices count. */
function randomAdapter({ architecture }: LoraBase, lora: LoraSettings): AdapterVector {
  const random = new Random(7);
  const shapes = adapterShapes(architecture, lora);
  const vector = new Float32Array(shapes.reduce((sum, { size }) => sum + size, 0));
  for (const { dimensions, offset, size } of shapes) {
    const bound = 1 / Math.sqrt(dimensions[1] ?? 1);
    for (let index = 0; index < size; index++) vector[offset + index] = bound * (2 * random.uniform() - 1);
  }
  return { lora, vector };
}

/** For each token one: with all tokens legal and with some, at several temperatures. */
function someDecisions(vocabularySize: number): ExactDecision[] {
  const legal = Int32Array.from({ length: Math.ceil(vocabularySize / 2) }, (_, index) => 2 * index);
  const token = 2 * Math.floor(vocabularySize / 4);
  return [1, 0.7, 1, 1.5].map((temperature, at) => ({
    token,
    temperature,
    legal: at < 2 ? null : legal,
    slope: at % 2 === 0 ? -1 : 0.5,
    entropySlope: at % 2 === 0 ? 0 : 0.2,
  }));
}

function rowsOf(values: Float32Array, width: number): Float32Array[] {
  return Array.from({ length: values.length / width }, (_, row) =>
    values.subarray(row * width, (row + 1) * width),
  );
}

function logSoftmax(logits: Float64Array): Float64Array {
  const largest = logits.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
  const total = logits.reduce((sum, value) => sum + Math.exp(value - largest), 0);
  return logits.map((value) => value - largest - Math.log(total));
}

/** The largest difference, relative to the root mean square of what is expected. NaN when values are missing. */
function largestDifference(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  let largest = 0;
  for (let index = 0; index < expected.length; index++)
    largest = Math.max(largest, Math.abs((actual[index] ?? Number.NaN) - (expected[index] as number)));
  return largest === 0 ? 0 : largest / rootMeanSquare(expected);
}

/** The same of the root mean square of the differences: few of a gradient's values may be large. */
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
