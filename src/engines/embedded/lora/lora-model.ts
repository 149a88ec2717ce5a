import { append } from '../../../util/extremes.ts';
import { type Device, freeAll, type Runtime } from '../runtime.ts';
import { rowLength } from '../sampling/distribution.ts';
import {
  addLogitsGradient,
  type BatchLoss,
  finiteLogprob,
  type Probability,
  probabilityOf,
  type Slope,
} from '../trainer/batch-loss.ts';
import type { Decision, TrainingSequence } from '../trainer/decisions.ts';
import type { KeptGradient } from '../trainer/kept-gradient.ts';
import type { GradientSum, Trained } from './adapter-vector.ts';
import { HeadRunner, type HeadStates, type PlainDecision } from './head-runner.ts';
import type { LoraBase } from './layer-feeds.ts';
import { type LayerPass, LayerRunner, type PassOptions } from './layer-runner.ts';
import { type Row, rowIndex, toRows } from './shared-prefixes.ts';
import { batchSizeOf, keptLayers, trainingBytes } from './training-memory.ts';

/** Decisions whose logits leave the graphs together. */
const logitRows = 16;

/** Rows that run together. */
export interface LoraBatch {
  rows: readonly Row<TrainingSequence>[];
  /** Padded length. */
  time: number;
  /** Layers whose forward pass keeps what the backward pass needs. */
  keptLayers: number;
}

interface GradientOptions {
  signal: AbortSignal;
  /** What an earlier process has added to the sum of the same batches. */
  kept?: KeptGradient | undefined;
}

interface PlacedDecision {
  decision: Decision;
  /** Index of the state that predicts its token. */
  row: number;
  /** Index in the micro-batch. */
  index: number;
}

/** A checkpoint in training. What is trained, a LoRA adapter or all its weights, is one flat vector. */
export class LoraModel {
  readonly #base: LoraBase;
  readonly #layers: LayerRunner;
  readonly #head: HeadRunner;
  readonly #device: Device;

  private constructor(
    { base, device }: { base: LoraBase; device: Device },
    layers: LayerRunner,
    head: HeadRunner,
  ) {
    this.#base = base;
    this.#device = device;
    this.#layers = layers;
    this.#head = head;
  }

  static async create(runtime: Runtime, base: LoraBase, trained: Trained): Promise<LoraModel> {
    const layers = await LayerRunner.create(runtime, base, trained);
    const { device } = runtime;
    return new LoraModel({ base, device }, layers, await HeadRunner.create(runtime, base, trained));
  }

  /**
   * Groups rows of similar length into micro-batches that fit into `bytes` (see `trainingBytes`), and leaves out sequences
   * without decisions. Throws an `EngineError` when one sequence alone does not fit.
   */
  toBatches(sequences: readonly TrainingSequence[], bytes: number): LoraBatch[] {
    const { architecture } = this.#base;
    const trained = sequences.filter(({ decisions }) => decisions.length > 0);
    const fits = (time: number) => trainingBytes(architecture, { sequences: 1, time }) <= bytes;
    const byLength = toRows(trained, architecture, fits).sort((a, b) => b.tokens.length - a.tokens.length);
    const batches: LoraBatch[] = [];
    for (let start = 0; start < byLength.length; ) {
      const time = byLength[start]?.tokens.length ?? 0;
      const count = batchSizeOf(architecture, time, bytes);
      const rows = byLength.slice(start, start + count);
      const size = { sequences: rows.length, time };
      batches.push({ rows, time, keptLayers: this.#keptLayers(size, bytes) });
      start += count;
    }
    return batches;
  }

  /**
   * The log-probabilities of all decisions, in the order of the batches. `vector`: what is trained, or null for the base
   * model, which is the reference of a KL penalty.
   */
  async logprobs(
    batches: readonly LoraBatch[],
    vector: Float32Array | null,
    signal: AbortSignal,
  ): Promise<number[]> {
    const logprobs: number[] = [];
    for (const batch of batches) {
      const pass = await this.#forward(batch, vector, { signal });
      const probabilities = await this.#probabilities(pass, placed(batch));
      for (const { logprob } of probabilities) logprobs.push(logprob);
      this.#layers.end(pass);
    }
    return logprobs;
  }

  /** Adds the gradient of the batches' loss to `sum`. `vector`: what is trained. */
  async addGradient(
    batches: readonly LoraBatch[],
    vector: Float32Array,
    loss: BatchLoss,
    sum: GradientSum,
    { signal, kept }: GradientOptions,
  ): Promise<void> {
    for (const batch of batches) {
      const { keptLayers } = batch;
      const decisions = placed(batch);
      const finished = kept?.next(decisions.length);
      if (finished) {
        addLoss(loss, batch, finished);
        continue;
      }
      const pass = await this.#forward(batch, vector, { keptLayers, signal });
      const probabilities = await this.#probabilities(pass, decisions);
      const slopes = addLoss(loss, batch, probabilities);
      const outer = await this.#headBackward(pass, decisions, slopes, sum);
      await this.#layers.backward(pass, outer, sum);
      await kept?.add(probabilities);
    }
  }

  /** On WebGPU every output is copied from the device and back, which takes longer than computing it again. */
  #keptLayers(size: { sequences: number; time: number }, bytes: number): number {
    return this.#device === 'cpu' ? keptLayers(this.#base.architecture, size, bytes) : 0;
  }

  async release(): Promise<void> {
    await this.#layers.release();
    await this.#head.release();
  }

  #forward({ rows, time }: LoraBatch, vector: Float32Array | null, options: PassOptions): Promise<LayerPass> {
    const sequences = rows.map(({ tokens }) => tokens);
    const branches = rows.map((row) => row.branches);
    return this.#layers.forward({ sequences, time, branches }, vector, options);
  }

  async #probabilities(pass: LayerPass, decisions: readonly PlacedDecision[]): Promise<Probability[]> {
    const states = statesOf(pass);
    const probabilities: Probability[] = [];
    const { plain, others } = divide(decisions);
    const { logprobs, entropies } = await this.#head.probabilities(
      states,
      plain.map(({ head }) => head),
    );
    for (const [at, { index, decision }] of plain.entries())
      probabilities[index] = {
        logprob: finiteLogprob(decision.token, logprobs[at] as number),
        entropy: entropies[at] as number,
      };
    for (const chunk of chunks(others)) {
      const logits = await this.#head.logits(states, rowsOf(chunk));
      for (const [row, { decision, index }] of chunk.entries())
        probabilities[index] = probabilityOf(decision.distribution(logits, row), decision.token);
      freeAll(Object.values(logits));
    }
    return probabilities;
  }

  /** dLoss/dstates before the head, [tokens, width]. */
  async #headBackward(
    pass: LayerPass,
    decisions: readonly PlacedDecision[],
    slopes: readonly Slope[],
    sum: GradientSum,
  ): Promise<Float32Array> {
    const states = statesOf(pass);
    const gradient = new Float32Array(states.states.length);
    const { plain, others } = divide(decisions);
    const own = plain.map(({ index }) => slopes[index] as Slope);
    await this.#head.addSlopes(
      states,
      plain.map(({ head }) => head),
      {
        logprobs: own.map(({ weight, slope }) => weight * slope),
        entropies: own.map(({ weight, bonus }) => -weight * bonus),
      },
      { gradient, sum },
    );
    for (const chunk of chunks(others)) {
      const logits = await this.#head.logits(states, rowsOf(chunk));
      const logitsGradient = new Float32Array(logits.logits.length);
      for (const [row, { decision, index }] of chunk.entries()) {
        const distribution = decision.distribution(logits, row);
        const { entropy } = probabilityOf(distribution, decision.token);
        const options = { ...(slopes[index] as Slope), entropy };
        addLogitsGradient(decision, distribution, options, logitsGradient, row * rowLength(logits));
      }
      freeAll(Object.values(logits));
      await this.#head.addLogitsGradient(states, rowsOf(chunk), logitsGradient, { gradient, sum });
    }
    return gradient;
  }
}

/** The sequences of a micro-batch, in the order of its decisions. */
export const sequencesOf = ({ rows }: LoraBatch): TrainingSequence[] =>
  rows.flatMap(({ sequences }) => sequences);

/** The slopes of a micro-batch's decisions. */
function addLoss(loss: BatchLoss, batch: LoraBatch, probabilities: readonly Probability[]): Slope[] {
  const slopes: Slope[] = [];
  for (const { decisions } of sequencesOf(batch))
    append(
      slopes,
      loss.addDatum(decisions, probabilities.slice(slopes.length, slopes.length + decisions.length)),
    );
  return slopes;
}

function placed({ rows, time }: LoraBatch): PlacedDecision[] {
  const decisions = rows.flatMap(({ sequences, branches }, row) =>
    sequences.flatMap(({ decisions: own }, sequence) =>
      own.map((decision) => ({
        decision,
        row: row * time + rowIndex(branches, sequence, decision.position),
      })),
    ),
  );
  return decisions.map((decision, index) => ({ ...decision, index }));
}

/** Splits decisions into those whose distribution the head's graphs compute, and the others. */
function divide(decisions: readonly PlacedDecision[]) {
  const plain: (PlacedDecision & { head: PlainDecision })[] = [];
  const others: PlacedDecision[] = [];
  for (const placedDecision of decisions) {
    const { decision, row } = placedDecision;
    const legal = () => decision.softmaxSupport();
    const { temperature } = decision.span.sampling;
    if (legal() === null) others.push(placedDecision);
    else plain.push({ ...placedDecision, head: { row, token: decision.token, temperature, legal } });
  }
  return { plain, others };
}

const statesOf = ({ states, vector }: LayerPass): HeadStates => ({
  states: states.at(-1)?.data as Float32Array,
  vector,
});
const rowsOf = (decisions: readonly PlacedDecision[]) => decisions.map(({ row }) => row);

function* chunks(decisions: readonly PlacedDecision[]): Generator<PlacedDecision[]> {
  for (let start = 0; start < decisions.length; start += logitRows)
    yield decisions.slice(start, start + logitRows);
}
