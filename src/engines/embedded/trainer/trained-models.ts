import type { BaseModels, CheckpointModel, EmbeddedBaseModel, TinyModel } from '../base-models.ts';
import { LoraModel, sequencesOf } from '../lora/lora-model.ts';
import type { Runtime } from '../runtime.ts';
import { initializeWeights } from '../weights/initialize.ts';
import { type GraphRunner, LocalGraphs, TrainingSessions } from './graph-runner.ts';
import { toMicroBatches } from './micro-batches.ts';
import { addGradient, logprobsUnder, shareWeights } from './passes.ts';
import type { TrainedModel } from './trained-model.ts';

/** Prepares base models for training, and keeps their graphs for the next job. */
export class TrainedModels {
  readonly #runtimes: Record<EmbeddedBaseModel['kind'], Runtime>;
  readonly #models: BaseModels;
  readonly #bytes: number;
  readonly #sessions: TrainingSessions;
  /** The checkpoint of the last job: its graphs keep the memory of their largest runs. */
  #checkpoint: { id: string; graphs: LoraModel } | undefined;

  /** `bytes`: what training a checkpoint may use beside its weights. */
  constructor(runtimes: Record<EmbeddedBaseModel['kind'], Runtime>, models: BaseModels, bytes: number) {
    this.#runtimes = runtimes;
    this.#models = models;
    this.#bytes = bytes;
    this.#sessions = new TrainingSessions(runtimes.tiny);
  }

  /** `others`: what runs the graphs of a tiny model; when empty, this thread does. This thread runs checkpoints. */
  async open(baseModel: string, others: readonly GraphRunner[]): Promise<TrainedModel> {
    const model = this.#models.find(baseModel);
    return model.kind === 'tiny' ? this.#openTiny(model, others) : this.#openCheckpoint(model);
  }

  /** Releases the graphs. Nothing may be running. */
  async close(): Promise<void> {
    await this.#sessions.close();
    await this.#checkpoint?.graphs.release();
    this.#checkpoint = undefined;
  }

  async #openTiny(model: TinyModel, others: readonly GraphRunner[]): Promise<TrainedModel> {
    const { id: baseModel, architecture, contextLength } = model;
    const runners = others.length > 0 ? others : [new LocalGraphs(this.#sessions)];
    await Promise.all(runners.map((runner) => runner.load(baseModel)));
    const initial = () => shareWeights(initializeWeights(architecture, model.seed));
    return {
      baseModel,
      contextLength,
      shapes: this.#models.trainedShapes(baseModel),
      prepare(sequences) {
        const batches = toMicroBatches(sequences);
        const running = (weights: Float32Array, signal: AbortSignal) => {
          return { baseModel, architecture, weights, runners, signal };
        };
        return {
          sequences: batches.flatMap((batch) => batch.trained),
          logprobs: (vector, signal) => logprobsUnder(running(vector ?? initial(), signal), batches),
          addGradient: (vector, loss, { signal }) =>
            addGradient(running(vector.values, signal), batches, loss, vector),
        };
      },
    };
  }

  async #openCheckpoint(model: CheckpointModel): Promise<TrainedModel> {
    const { id: baseModel, contextLength } = model;
    const graphs = await this.#graphsOf(model);
    return {
      baseModel,
      contextLength,
      shapes: this.#models.trainedShapes(baseModel),
      prepare: (sequences) => {
        const batches = graphs.toBatches(sequences, this.#bytes);
        return {
          sequences: batches.flatMap(sequencesOf),
          logprobs: (vector, signal) => graphs.logprobs(batches, vector, signal),
          addGradient: (vector, loss, options) =>
            graphs.addGradient(batches, vector.values, loss, vector, options),
        };
      },
    };
  }

  async #graphsOf(model: CheckpointModel): Promise<LoraModel> {
    if (this.#checkpoint?.id === model.id) return this.#checkpoint.graphs;
    await this.#checkpoint?.graphs.release();
    this.#checkpoint = undefined;
    const graphs = await LoraModel.create(this.#runtimes.checkpoint, model, model.trained);
    this.#checkpoint = { id: model.id, graphs };
    return graphs;
  }
}
