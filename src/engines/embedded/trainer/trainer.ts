import { inTimeSlices } from '../../../util/time-slices.ts';
import type { TrainingBatch, Weights } from '../../engine.ts';
import { EngineError } from '../../engine.ts';
import { findBaseModel, loadWeights } from '../base-models.ts';
import type { ConversationCodec } from '../conversation-codec.ts';
import { backwardGraph } from '../graphs/backward-graph.ts';
import { forwardGraph } from '../graphs/forward-graph.ts';
import type { Runtime, Session } from '../runtime.ts';
import type { Architecture } from '../weights/architecture.ts';
import { type OptimizerState, readOptimizer, writeCheckpoint } from '../weights/checkpoint-files.ts';
import { BatchLoss } from './batch-loss.ts';
import { findDecisions, type TrainingSequence } from './decisions.ts';
import { forwardPass, klPenaltyOf } from './forward-pass.ts';
import { type MicroBatch, toMicroBatches } from './micro-batches.ts';
import { addGradient, freshOptimizer, norm, updateByAdam } from './optimizer.ts';

/** Gradients with a larger norm are scaled down to it. */
const maxNorm = 1;

interface Graphs {
  forward: Session;
  backward: Session;
}

/** Weights in training. They are in memory until they are saved. */
interface Run {
  architecture: Architecture;
  graphs: Graphs;
  weights: Float32Array;
  optimizer: OptimizerState;
  /** Optimizer steps so far. */
  steps: number;
  /** Ends the current step between two runs of the graphs, and makes later steps fail. */
  signal: AbortSignal;
}

/** Trains one set of weights at a time. */
export class Trainer {
  readonly #runtime: Runtime;
  readonly #codec: ConversationCodec;
  readonly #graphs = new Map<string, Promise<Graphs>>();
  #run: Run | undefined;
  #cancellation = new AbortController();
  /** The last saved checkpoint, kept in memory because the next job usually begins from it. */
  #saved: { folder: string; run: Run } | undefined;

  constructor(runtime: Runtime, codec: ConversationCodec) {
    this.#runtime = runtime;
    this.#codec = codec;
  }

  async begin(from: Weights): Promise<void> {
    this.#run = undefined;
    this.#cancellation = new AbortController();
    const { signal } = this.#cancellation;
    if (this.#saved && from.folder === this.#saved.folder) {
      this.#run = { ...this.#saved.run, steps: 0, signal };
      this.#saved = undefined;
      return;
    }
    const { architecture } = findBaseModel(from.baseModel);
    const weights = await loadWeights(from);
    const optimizer =
      from.folder === null ? freshOptimizer(weights.length) : await readOptimizer(from.folder, architecture);
    this.#run = {
      architecture,
      weights,
      optimizer,
      graphs: await this.#graphsOf(from.baseModel, architecture),
      steps: 0,
      signal,
    };
  }

  /** Ends the current step soon, without an update, and makes later steps fail until the next `begin`. */
  cancel(): void {
    this.#cancellation.abort(new EngineError('training_cancelled', 'the training was cancelled'));
  }

  /** Takes one optimizer step over all datums of the batch and returns its metrics. */
  async step({ datums, loss, reference, learningRate }: TrainingBatch): Promise<Record<string, number>> {
    const run = this.#current();
    if (loss.type !== 'cross_entropy' && loss.precalculateLogprobs && run.steps > 0)
      throw new EngineError(
        'unsupported_option',
        'precalculate_logprobs works only in jobs with one gradient step',
      );
    const started = performance.now();
    const sequences: TrainingSequence[] = [];
    for await (const [, datum] of inTimeSlices(datums))
      sequences.push(await findDecisions(datum, this.#codec));
    const longest = Math.max(0, ...sequences.map(({ tokens }) => tokens.length));
    if (longest > run.architecture.contextLength)
      throw new EngineError(
        'too_long',
        `a sequence of ${longest} tokens exceeds the context of ${run.architecture.contextLength}`,
      );
    const batches = toMicroBatches(sequences);
    if (batches.length === 0)
      throw new EngineError('nothing_to_train', 'no token of the batch was a decision');
    const penalty = await klPenaltyOf(loss, reference, run, batches, this.#runtime);
    const batchLoss = new BatchLoss(loss, penalty?.shifts);
    const gradient = new Float32Array(run.weights.length);
    for (const batch of batches) {
      await this.#addGradient(run, batch, batchLoss, gradient);
      // Lets a cancellation arrive: not every runtime leaves the event loop free during a run.
      await new Promise(setImmediate);
    }
    run.signal.throwIfAborted();
    const length = norm(gradient);
    if (!Number.isFinite(length))
      throw new EngineError(
        'gradient_not_finite',
        `the gradient's norm is ${length}; lower the learning rate`,
      );
    updateByAdam(run.weights, gradient, run.optimizer, {
      learningRate,
      scale: length > maxNorm ? maxNorm / length : 1,
    });
    run.steps++;
    const trained = batches.flatMap((batch) => batch.sequences);
    const tokens = trained.reduce((sum, sequence) => sum + sequence.tokens.length, 0);
    const seconds = (performance.now() - started) / 1000;
    return {
      ...batchLoss.metrics(),
      ...(penalty ? { kl_policy_ref: penalty.mean } : {}),
      grad_norm: length,
      learning_rate: learningRate,
      tokens_per_second: tokens / seconds,
    };
  }

  async save(folder: string): Promise<void> {
    const run = this.#current();
    await writeCheckpoint(folder, run.architecture, run.weights, run.optimizer);
    this.#saved = { folder, run };
    this.#run = undefined;
  }

  abandon(): void {
    this.#run = undefined;
  }

  /** Releases the graphs. Nothing may be running. */
  async close(): Promise<void> {
    this.#run = undefined;
    this.#saved = undefined;
    const graphs = [...this.#graphs.values()];
    this.#graphs.clear();
    for (const created of graphs) {
      const sessions = Object.values((await created.catch(() => null)) ?? {});
      for (const session of sessions) await session.release();
    }
  }

  async #addGradient(run: Run, batch: MicroBatch, loss: BatchLoss, total: Float32Array): Promise<void> {
    const { architecture, graphs } = run;
    const { logits, backwardFeeds } = await forwardPass(run, batch, this.#runtime);
    const slope = loss.add(batch.decisions, logits);
    const outputs = await graphs.backward.run({
      ...backwardFeeds,
      logits_gradient: this.#runtime.float(slope, [
        batch.sequences.length * batch.picks,
        architecture.vocabularySize,
      ]),
    });
    addGradient(total, architecture, batch, {
      gradient: outputs.gradient?.data as Float32Array,
      embedding: outputs.embedding_gradient?.data as Float32Array,
    });
  }

  #current(): Run {
    if (!this.#run) throw new EngineError('no_training_run', 'no training run has begun');
    return this.#run;
  }

  #graphsOf(baseModel: string, architecture: Architecture): Promise<Graphs> {
    const graphs = this.#graphs.get(baseModel) ?? this.#createGraphs(architecture);
    this.#graphs.set(baseModel, graphs);
    graphs.catch(() => this.#graphs.delete(baseModel));
    return graphs;
  }

  async #createGraphs(architecture: Architecture): Promise<Graphs> {
    return {
      forward: await this.#runtime.session(forwardGraph(architecture)),
      backward: await this.#runtime.session(backwardGraph(architecture)),
    };
  }
}
