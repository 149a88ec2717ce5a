import { sumOf } from '../../../util/sums.ts';
import { addParts, type GradientSum, PartialSum } from '../runner/adapter-vector.ts';
import type { BatchRun, BatchRunner } from '../runner/batch-runner.ts';
import { freeAll } from '../runtime.ts';
import { entropyOf, rowLength } from '../sampling/distribution.ts';
import {
  addLogitsGradient,
  type BatchLoss,
  finiteLogprob,
  logprobOf,
  type Probabilities,
} from './batch-loss.ts';
import type { Decision, TrainingSequence } from './decisions.ts';
import type { KeptGradient } from './kept-gradient.ts';
import {
  type MicroBatch,
  type PlacedDecisions,
  placeDecisions,
  sequencesOf,
  tokensOf,
} from './micro-batches.ts';

/** Decisions whose logits leave the graphs together. */
const logitRows = 16;

/** A micro-batch on its way, with the decisions that it is for. */
interface Pass {
  number: number;
  batch: MicroBatch;
  decisions: PlacedDecisions;
  runner: BatchRunner;
  probabilities: Probabilities;
}

interface GradientOptions {
  signal: AbortSignal;
  /** What an earlier process has added to the sum of the same batches. */
  kept?: KeptGradient | undefined;
}

/** The passes of a step: its micro-batches, and what runs their graphs. */
export class TrainingPasses {
  readonly #batches: readonly MicroBatch[];
  /** They share the micro-batches; each runs on its own core. */
  readonly #runners: readonly BatchRunner[];

  constructor(batches: readonly MicroBatch[], runners: readonly BatchRunner[]) {
    this.#batches = batches;
    this.#runners = runners;
  }

  /** In the order in which they are trained. Those without decisions are left out. */
  get sequences(): TrainingSequence[] {
    return this.#batches.flatMap(sequencesOf);
  }

  get decisions(): Decision[] {
    return this.sequences.flatMap(({ decisions }) => decisions);
  }

  /**
   * The log-probability of each decision. `vector`: what is trained, in shared memory, or null for the base model as
   * nothing has trained it. `asTrained`: the graphs run as they do before a backward pass, whose rounding may differ.
   */
  async logprobs(
    vector: Float32Array | null,
    signal: AbortSignal,
    { asTrained = false }: { asTrained?: boolean } = {},
  ): Promise<number[]> {
    const logprobs: number[] = [];
    const passes = inOrder(this.#batches.entries(), this.#ahead, ([number, batch]) =>
      this.#forward(number, asTrained ? batch : { ...batch, keptLayers: 0 }, vector, signal),
    );
    for await (const { number, runner, probabilities } of passes) {
      runner.end(number);
      for (const logprob of probabilities.logprobs) logprobs.push(logprob);
    }
    return logprobs;
  }

  /**
   * Adds the gradient of the loss to a sum. Losses and gradients are added up in the order of the micro-batches, so that
   * the sum has the same bits on any number of runners.
   */
  async addGradient(
    vector: Float32Array,
    loss: BatchLoss,
    sum: GradientSum,
    { signal, kept }: GradientOptions,
  ): Promise<void> {
    const forward = inOrder(this.#batches.entries(), this.#ahead, async ([number, batch]) => {
      const finished = kept?.next(placedCount(batch));
      return finished ? { batch, finished } : this.#forward(number, batch, vector, signal);
    });
    const backward = inOrder(forward, this.#ahead, async (pass) => {
      if ('finished' in pass) {
        loss.add(decisionsOf(pass.batch), pass.finished);
        return null;
      }
      // Parts of several runners are added up later, in order.
      const own = this.#runners.length > 1 ? new PartialSum() : sum;
      await this.#backward(pass, loss, own, signal);
      return { probabilities: pass.probabilities, own };
    });
    for await (const done of backward) {
      if (!done) continue;
      if (done.own instanceof PartialSum) addParts(sum, done.own.parts);
      await kept?.add(done.probabilities);
    }
  }

  /** Runs that wait while others are used, so that a runner in another thread always has one to go on with. */
  get #ahead(): number {
    return this.#runners.length > 1 ? this.#runners.length : 0;
  }

  async #forward(
    number: number,
    batch: MicroBatch,
    vector: Float32Array | null,
    signal: AbortSignal,
  ): Promise<Pass> {
    // Lets a cancellation arrive: not every runtime leaves the event loop free during a run.
    await new Promise(setImmediate);
    signal.throwIfAborted();
    const runner = this.#runners[number % this.#runners.length] as BatchRunner;
    const decisions = placeDecisions(batch);
    const { all, softmax, softmaxAt, othersAt, states } = decisions;
    const others = pick(states, othersAt);
    const run: BatchRun = { tokens: tokensOf(batch), vector, keptLayers: batch.keptLayers, softmax, others };
    const own = await runner.forward(number, run, signal);
    const probabilities = { logprobs: new Float64Array(all.length), entropies: new Float64Array(all.length) };
    for (const [at, index] of softmaxAt.entries()) {
      const { token } = all[index] as Decision;
      probabilities.logprobs[index] = finiteLogprob(token, own.logprobs[at] as number);
      probabilities.entropies[index] = own.entropies[at] as number;
    }
    for (const chunk of chunks(othersAt)) {
      const logits = await runner.logits(number, pick(states, chunk));
      for (const [row, index] of chunk.entries()) {
        const decision = all[index] as Decision;
        const distribution = decision.distribution(logits, row);
        probabilities.logprobs[index] = logprobOf(distribution, decision.token);
        probabilities.entropies[index] = entropyOf(distribution);
      }
      freeAll(Object.values(logits));
    }
    return { number, batch, decisions, runner, probabilities };
  }

  async #backward(
    { number, batch, decisions, runner, probabilities }: Pass,
    loss: BatchLoss,
    sum: GradientSum,
    signal: AbortSignal,
  ): Promise<void> {
    signal.throwIfAborted();
    const { all, states, softmaxAt, othersAt } = decisions;
    const slopes = loss.add(decisionsOf(batch), probabilities);
    for (const chunk of chunks(othersAt)) {
      const wanted = pick(states, chunk);
      const logits = await runner.logits(number, wanted);
      const gradient = new Float32Array(logits.logits.length);
      for (const [row, index] of chunk.entries()) {
        const decision = all[index] as Decision;
        const own = {
          slope: slopes.logprobs[index] as number,
          entropySlope: slopes.entropies[index] as number,
        };
        addLogitsGradient(
          decision,
          decision.distribution(logits, row),
          own,
          gradient,
          row * rowLength(logits),
        );
      }
      freeAll(Object.values(logits));
      await runner.addLogitsGradient(number, wanted, gradient, sum);
    }
    const ofSoftmax = {
      logprobs: pick(slopes.logprobs, softmaxAt),
      entropies: pick(slopes.entropies, softmaxAt),
    };
    await runner.backward(number, ofSoftmax, sum);
  }
}

const decisionsOf = (batch: MicroBatch): Decision[][] => sequencesOf(batch).map(({ decisions }) => decisions);

const placedCount = (batch: MicroBatch): number =>
  sumOf(sequencesOf(batch), ({ decisions }) => decisions.length);

function pick<Values extends Int32Array | Float32Array>(values: Values, indices: Int32Array): Values {
  const picked = values.slice(0, indices.length) as Values;
  for (const [at, index] of indices.entries()) picked[at] = values[index] as number;
  return picked;
}

function* chunks(indices: Int32Array): Generator<Int32Array> {
  for (let start = 0; start < indices.length; start += logitRows)
    yield indices.subarray(start, start + logitRows);
}

/**
 * Yields the results of `start` in order, while it has started up to `ahead` more. Once it has ended, in whatever way,
 * nothing that it started is running.
 */
async function* inOrder<Item, Result>(
  items: Iterable<Item> | AsyncIterable<Item>,
  ahead: number,
  start: (item: Item) => Promise<Result>,
): AsyncGenerator<Result> {
  const started: Promise<Result>[] = [];
  try {
    for await (const item of items) {
      const result = start(item);
      // It is awaited below, perhaps only after another one has failed.
      result.catch(() => undefined);
      started.push(result);
      if (started.length > ahead) yield (await started.shift()) as Result;
    }
    while (started.length > 0) yield (await started.shift()) as Result;
  } finally {
    await Promise.allSettled(started);
  }
}
