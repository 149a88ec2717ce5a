import { inTimeSlices } from '../../../util/time-slices.ts';
import type { TrainingBatch, Weights } from '../../engine.ts';
import { EngineError } from '../../engine.ts';
import { findBaseModel, loadWeights } from '../base-models.ts';
import type { ConversationCodec } from '../conversation-codec.ts';
import type { Runtime } from '../runtime.ts';
import { type Architecture, tensorShapes } from '../weights/architecture.ts';
import { type OptimizerState, readOptimizer, writeCheckpoint } from '../weights/checkpoint-files.ts';
import { BatchLoss } from './batch-loss.ts';
import { findDecisions, type TrainingSequence } from './decisions.ts';
import { type GraphRunner, LocalGraphs, TrainingSessions } from './graph-runner.ts';
import { klPenaltyOf } from './kl-penalty.ts';
import { toMicroBatches } from './micro-batches.ts';
import { freshOptimizer, norm, updateByAdam } from './optimizer.ts';
import { gradientOf, type RunningModel, shareWeights } from './passes.ts';

/** Gradients with a larger norm are scaled down to it. */
const maxNorm = 1;

/** Weights in training. They are in memory until they are saved. */
interface Run extends RunningModel {
  architecture: Architecture;
  optimizer: OptimizerState;
  /** Optimizer steps so far. */
  steps: number;
}

/** Trains one set of weights at a time. */
export class Trainer {
  readonly #codec: ConversationCodec;
  readonly #sessions: TrainingSessions;
  #runners: readonly GraphRunner[] = [];
  #run: Run | undefined;
  #cancellation = new AbortController();
  /** The last saved checkpoint, kept in memory because the next job usually begins from it. */
  #saved: { folder: string; run: Run } | undefined;

  constructor(runtime: Runtime, codec: ConversationCodec) {
    this.#codec = codec;
    this.#sessions = new TrainingSessions(runtime);
  }

  /** Begins a job. `others`: what runs the graphs; when empty, this thread does. */
  async begin(from: Weights, others: readonly GraphRunner[] = []): Promise<void> {
    this.#end();
    const runners = others.length > 0 ? others : [new LocalGraphs(this.#sessions)];
    this.#runners = runners;
    this.#cancellation = new AbortController();
    const { signal } = this.#cancellation;
    const { baseModel, folder } = from;
    if (this.#saved && folder === this.#saved.folder) {
      this.#run = { ...this.#saved.run, runners, steps: 0, signal };
      this.#saved = undefined;
      return;
    }
    const { architecture } = findBaseModel(baseModel);
    const weights = shareWeights(await loadWeights(from));
    const optimizer =
      folder === null ? freshOptimizer(weights.length) : await readOptimizer(folder, tensorShapes(architecture));
    await Promise.all(runners.map((runner) => runner.load(baseModel)));
    this.#run = { baseModel, architecture, weights, optimizer, runners, steps: 0, signal };
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
    const penalty = await klPenaltyOf(loss, reference, run, batches);
    const batchLoss = new BatchLoss(loss, penalty?.shifts);
    const gradient = await gradientOf(run, batches, batchLoss);
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
    await writeCheckpoint(folder, tensorShapes(run.architecture), run.weights, run.optimizer);
    this.#saved = { folder, run };
    this.#end();
  }

  abandon(): void {
    this.#end();
  }

  /** Releases the graphs. Nothing may be running. */
  async close(): Promise<void> {
    this.#end();
    this.#saved = undefined;
    await this.#sessions.close();
  }

  #end(): void {
    for (const runner of this.#runners) runner.end();
    this.#runners = [];
    this.#run = undefined;
  }

  #current(): Run {
    if (!this.#run) throw new EngineError('no_training_run', 'no training run has begun');
    return this.#run;
  }
}
