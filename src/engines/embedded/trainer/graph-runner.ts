import type { InferenceSession } from 'onnxruntime-common';
import { BaseModels } from '../base-models.ts';
import { backwardGraph } from '../graphs/backward-graph.ts';
import { forwardGraph } from '../graphs/forward-graph.ts';
import { logitRowsOf } from '../graphs/logit-outputs.ts';
import { type Feeds, freeAll, type Runtime, type Session } from '../runtime.ts';
import type { LogitRows } from '../sampling/distribution.ts';
import { type Architecture, tensorShapes } from '../weights/architecture.ts';
import { type BatchTokens, feedsOf } from './micro-batches.ts';

/** A run of the forward pass. */
export interface ForwardRun {
  baseModel: string;
  /** The flat parameter vector. */
  weights: Float32Array;
  batch: BatchTokens;
  /** Keeps what the backward pass needs, under this number; null when there will be none. */
  keepAs: number | null;
}

/** The outputs of the backward graph, by name. */
export type Gradients = Record<string, Float32Array>;

/**
 * Runs the training graphs for one job, one run after another. The arrays that it returns belong to the caller, which
 * frees them (`freeAll`); those that it gets belong to the runner.
 */
export interface GraphRunner {
  /** Creates the graphs of a base model, which the first run does otherwise. */
  load(baseModel: string): Promise<void>;
  forward(run: ForwardRun): Promise<LogitRows>;
  /** The backward pass of the forward pass kept as `kept`, from dLoss/dlogits [rows, vocabulary]. */
  backward(kept: number, logitsGradient: Float32Array): Promise<Gradients>;
  /** Ends the job. Nothing may be called after it. */
  end(): void;
}

interface Graphs {
  architecture: Architecture;
  forward: Session;
  backward: Session;
}

/** The training graphs of each tiny model, created when first needed. */
export class TrainingSessions {
  readonly runtime: Runtime;
  readonly #models = new BaseModels([]);
  readonly #graphs = new Map<string, Promise<Graphs>>();

  constructor(runtime: Runtime) {
    this.runtime = runtime;
  }

  of(baseModel: string): Promise<Graphs> {
    const graphs = this.#graphs.get(baseModel) ?? this.#create(this.#models.find(baseModel).architecture);
    this.#graphs.set(baseModel, graphs);
    graphs.catch(() => this.#graphs.delete(baseModel));
    return graphs;
  }

  /** Releases the graphs. Nothing may be running. */
  async close(): Promise<void> {
    const created = [...this.#graphs.values()];
    this.#graphs.clear();
    for (const creating of created) {
      const graphs = await creating.catch(() => null);
      await graphs?.forward.release();
      await graphs?.backward.release();
    }
  }

  async #create(architecture: Architecture): Promise<Graphs> {
    return {
      architecture,
      forward: await this.runtime.session(forwardGraph(architecture)),
      backward: await this.runtime.session(backwardGraph(architecture)),
    };
  }
}

/** Runs the graphs in this thread. */
export class LocalGraphs implements GraphRunner {
  readonly #sessions: TrainingSessions;
  readonly #kept = new Map<number, { graphs: Graphs; feeds: Feeds; rows: number; tape: Feeds }>();

  constructor(sessions: TrainingSessions) {
    this.#sessions = sessions;
  }

  async load(baseModel: string): Promise<void> {
    await this.#sessions.of(baseModel);
  }

  async forward({ baseModel, weights, batch, keepAs }: ForwardRun): Promise<LogitRows> {
    const graphs = await this.#sessions.of(baseModel);
    const { runtime } = this.#sessions;
    const { architecture } = graphs;
    const { shared, causal, sources } = feedsOf(batch, architecture.previousTokens, runtime);
    const feeds = { ...shared, ...parameterFeeds(weights, architecture, runtime) };
    const outputs = await graphs.forward.run({ ...feeds, causal });
    const tape = Object.fromEntries(Object.entries(outputs).filter(([name]) => name.startsWith('tape.')));
    const rows = batch.sequences.length * batch.picks;
    if (keepAs === null) freeAll(Object.values(arraysOf(tape)));
    else this.#kept.set(keepAs, { graphs, feeds: { ...feeds, sources }, rows, tape });
    return logitRowsOf(outputs);
  }

  async backward(kept: number, logitsGradient: Float32Array): Promise<Gradients> {
    const taken = this.#kept.get(kept);
    if (!taken) throw new Error(`no forward pass is kept as ${kept}`);
    this.#kept.delete(kept);
    const { graphs, feeds, rows, tape } = taken;
    const slopes = this.#sessions.runtime.float(logitsGradient, [rows, graphs.architecture.vocabularySize]);
    const outputs = await graphs.backward.run({ ...feeds, ...tape, logits_gradient: slopes });
    freeAll([...Object.values(arraysOf(tape)), logitsGradient]);
    return arraysOf(outputs);
  }

  end(): void {
    this.#kept.clear();
  }
}

/** The parameters as inputs of the training graphs: views of the flat vector. */
export function parameterFeeds(weights: Float32Array, architecture: Architecture, runtime: Runtime): Feeds {
  return Object.fromEntries(
    tensorShapes(architecture).map(({ name, dimensions, offset, size }) => [
      name,
      runtime.float(weights.subarray(offset, offset + size), dimensions),
    ]),
  );
}

function arraysOf(tensors: InferenceSession.OnnxValueMapType): Record<string, Float32Array> {
  return Object.fromEntries(
    Object.entries(tensors).map(([name, tensor]) => [name, tensor.data as Float32Array]),
  );
}
