import { hasCode } from '../../../util/error.ts';
import { largestOf } from '../../../util/extremes.ts';
import { sumOf } from '../../../util/sums.ts';
import { inTimeSlices } from '../../../util/time-slices.ts';
import { martingaleVersion } from '../../../util/version.ts';
import type { TrainingBatch, Weights } from '../../engine.ts';
import { EngineError } from '../../engine.ts';
import { type StepResult, TokenResults } from '../../token-results.ts';
import type { BaseModels, EmbeddedBaseModel } from '../base-models.ts';
import type { BatchRunner } from '../runner/batch-runner.ts';
import type { Runtime } from '../runtime.ts';
import { readOptimizer, writeCheckpoint } from '../weights/checkpoint-files.ts';
import { BatchLoss } from './batch-loss.ts';
import { type DecisionCodec, findDecisions, type TrainingSequence } from './decisions.ts';
import { GraphsOfModels } from './graphs-of-models.ts';
import { KeptGradient } from './kept-gradient.ts';
import { klPenaltyOf } from './kl-penalty.ts';
import { toMicroBatches } from './micro-batches.ts';
import { TrainingPasses } from './passes.ts';
import { TrainedVector } from './trained-vector.ts';

/** Gradients with a larger norm are scaled down to it. */
const maxNorm = 1;

/** Weights in training. They are in memory until they are saved. */
interface Run {
  model: EmbeddedBaseModel;
  vector: TrainedVector;
  /** Optimizer steps so far. */
  steps: number;
  /** When it is aborted, no further run of the graphs starts. */
  signal: AbortSignal;
}

export interface TrainerOptions {
  models: BaseModels;
  codecOf: (baseModel: string) => DecisionCodec;
  /** Runs the graphs of checkpoints. */
  checkpointRuntime: Runtime;
  /** Bytes that training a checkpoint may use beside its weights. */
  trainingBytes: number;
  /** At least this long between two writes of a scratch file, in milliseconds. Default: see `KeptGradient.open`. */
  keepEveryMs?: number;
}

/** Copies values into memory that the threads of several runners can read. */
function inSharedMemory(values: Float32Array): Float32Array {
  const shared = new Float32Array(new SharedArrayBuffer(values.byteLength));
  shared.set(values);
  return shared;
}

/** Trains one set of weights at a time. */
export class Trainer {
  readonly #models: BaseModels;
  readonly #codecOf: TrainerOptions['codecOf'];
  readonly #graphs: GraphsOfModels;
  readonly #bytes: number;
  readonly #keepsLayers: boolean;
  readonly #keepEveryMs: number | undefined;
  /** Settings, besides the step, that decide the micro-batches and so the rounding. */
  readonly #settings: readonly (string | number)[];
  /** Other threads that run graphs of the job. */
  #runners: readonly BatchRunner[] = [];
  /** What runs the graphs of a teacher that has another base model. */
  #teacher: { baseModel: string; runners: readonly BatchRunner[] } | undefined;
  #run: Run | undefined;
  #cancellation = new AbortController();
  /** The last saved checkpoint, kept in memory because the next job usually begins from it. */
  #saved: { folder: string; vector: TrainedVector } | undefined;

  constructor(
    runtime: Runtime,
    { models, codecOf, checkpointRuntime, trainingBytes, keepEveryMs }: TrainerOptions,
  ) {
    this.#keepEveryMs = keepEveryMs;
    this.#settings = [checkpointRuntime.name, checkpointRuntime.device, trainingBytes];
    this.#models = models;
    this.#codecOf = codecOf;
    this.#bytes = trainingBytes;
    this.#graphs = new GraphsOfModels(models, { cpu: runtime, device: checkpointRuntime });
    // On WebGPU every output is copied from the device and back, which takes longer than computing it again.
    this.#keepsLayers = checkpointRuntime.device === 'cpu';
  }

  /** Begins a job. Without `runners`, this thread runs its graphs. */
  async begin(from: Weights, runners: readonly BatchRunner[] = []): Promise<void> {
    this.#end();
    this.#cancellation = new AbortController();
    const { signal } = this.#cancellation;
    const model = this.#models.find(from.baseModel);
    this.#runners = runners.length > 0 ? runners : [await this.#graphs.hold(model.id)];
    this.#run = { model, vector: await this.#take(from), steps: 0, signal };
  }

  /** Says what runs the graphs of the job's teacher. Without `runners`, or without this call, this thread does. */
  async teach(baseModel: string, runners: readonly BatchRunner[] = []): Promise<void> {
    const beside = this.#current().model.id;
    const own = runners.length > 0 ? runners : [await this.#graphs.hold(baseModel, { beside })];
    this.#closeTeacher();
    this.#teacher = { baseModel, runners: own };
  }

  /** What the job begins with. The last checkpoint leaves the memory before another is loaded. */
  async #take({ baseModel, folder }: Weights): Promise<TrainedVector> {
    const saved = this.#saved?.folder === folder ? this.#saved : null;
    this.#saved = undefined;
    if (saved) return saved.vector;
    const values = await this.#models.loadVector({ baseModel, folder });
    const shapes = this.#models.trainedShapes(baseModel);
    return new TrainedVector(values, folder === null ? null : await readOptimizer(folder, shapes));
  }

  /** Ends the current step soon, without an update, and makes later steps fail until the next `begin`. */
  cancel(): void {
    this.#cancellation.abort(new EngineError('training_cancelled', 'The training was cancelled.'));
  }

  /**
   * Takes one optimizer step over all datums of the batch. `scratchFile`: where finished parts are kept for another
   * process, see `TrainRequest`.
   */
  async step(batch: TrainingBatch, scratchFile?: string): Promise<StepResult> {
    const { datums, loss, reference, learningRate } = batch;
    const run = this.#current();
    if (loss.type !== 'cross_entropy' && loss.precalculateLogprobs && run.steps > 0)
      throw new EngineError(
        'unsupported_option',
        '`precalculate_logprobs` works only in jobs with one gradient step.',
      );
    const started = performance.now();
    const { model, vector, signal } = run;
    const codec = this.#codecOf(model.id);
    const sequences: TrainingSequence[] = [];
    for await (const [, datum] of inTimeSlices(datums)) {
      signal.throwIfAborted();
      sequences.push(await findDecisions(datum, codec));
    }
    const passes = this.#passes(model, sequences, this.#runners);
    if (passes.sequences.length === 0)
      throw new EngineError('nothing_to_train', 'No token of the batch was a decision.');
    const penalty = await klPenaltyOf(loss, {
      step: passes,
      baseModel: model.id,
      vector: vector.values,
      reference,
      signal,
      passesOf: async (teacher) => {
        if (this.#teacher?.baseModel !== teacher) await this.teach(teacher);
        return this.#passes(this.#models.find(teacher), sequences, this.#teacher?.runners ?? []);
      },
      load: (weights) => this.#loadReference(weights),
    });
    const results = loss.type === 'cross_entropy' ? undefined : new TokenResults(datums);
    const batchLoss = new BatchLoss(loss, penalty, results);
    vector.clearGradient();
    const kept =
      scratchFile === undefined
        ? undefined
        : await KeptGradient.open(scratchFile, {
            step: [martingaleVersion, this.#settings, this.#models.originOf(model.id), batch],
            values: vector.values,
            total: vector.gradient,
            everyMs: this.#keepEveryMs,
          });
    await passes.addGradient(vector.values, batchLoss, vector, { signal, kept });
    signal.throwIfAborted();
    const length = vector.gradientNorm();
    if (!Number.isFinite(length))
      throw new EngineError(
        'gradient_not_finite',
        `The gradient's norm is ${length}. Lower the learning rate.`,
      );
    vector.update({ learningRate, scale: length > maxNorm ? maxNorm / length : 1 });
    run.steps++;
    const tokens = sumOf(passes.sequences, (sequence) => sequence.tokens.length);
    const seconds = (performance.now() - started) / 1000;
    const metrics = {
      ...batchLoss.metrics(),
      grad_norm: length,
      learning_rate: learningRate,
      tokens_per_second: tokens / seconds,
    };
    return { metrics, tokens: results?.all() };
  }

  /** The passes of sequences through the graphs of a model. */
  #passes(
    { id, isSmall, architecture, contextLength }: EmbeddedBaseModel,
    sequences: readonly TrainingSequence[],
    runners: readonly BatchRunner[],
  ): TrainingPasses {
    const longest = largestOf(
      sequences.map(({ tokens }) => tokens.length),
      0,
    );
    if (longest > contextLength)
      throw new EngineError(
        'too_long',
        `A sequence of ${longest} tokens exceeds the context of ${contextLength} of ${id}.`,
      );
    const limits = { architecture, bytes: this.#bytes, keepsLayers: this.#keepsLayers };
    return new TrainingPasses(toMicroBatches(sequences, { ...limits, isShared: isSmall }), runners);
  }

  async #loadReference(weights: Weights): Promise<Float32Array | null> {
    if (this.#models.isBare(weights)) return null;
    try {
      return inSharedMemory(await this.#models.loadVector(weights));
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error;
      throw new EngineError(
        'reference_missing',
        'The checkpoint that the KL penalty compares with was deleted while the job ran. Keep it until its jobs have ended.',
      );
    }
  }

  async save(folder: string): Promise<void> {
    const { model, vector } = this.#current();
    const origin = this.#models.originOf(model.id);
    await writeCheckpoint(
      folder,
      this.#models.trainedShapes(model.id),
      vector.values,
      vector.optimizer,
      origin,
    );
    this.#saved = { folder, vector };
    this.#end();
  }

  /** Keeps nothing of a checkpoint for the next job. */
  drop({ folder }: Weights): void {
    if (this.#saved?.folder === folder) this.#saved = undefined;
  }

  abandon(): void {
    this.#end();
  }

  /** Releases the graphs. Nothing may be running. */
  async close(): Promise<void> {
    this.#end();
    this.#saved = undefined;
    await this.#graphs.close();
  }

  #end(): void {
    for (const runner of this.#runners) runner.close();
    this.#runners = [];
    this.#closeTeacher();
    this.#run = undefined;
  }

  #closeTeacher(): void {
    for (const runner of this.#teacher?.runners ?? []) runner.close();
    this.#teacher = undefined;
  }

  #current(): Run {
    if (!this.#run) throw new EngineError('no_training_run', 'No training run has begun.');
    return this.#run;
  }
}
