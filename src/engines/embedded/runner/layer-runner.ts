import type { Tensor } from 'onnxruntime-common';
import { keptShapes, lengthsOf, sized } from '../graphs/kept-shapes.ts';
import {
  type LayerGraphOptions,
  layerBackwardGraph,
  layerForwardGraph,
  layerKeepingGraph,
  layerTapeGraph,
} from '../graphs/layer-graphs.ts';
import { type Feeds, freeAll, type Runtime, type Session } from '../runtime.ts';
import { isLocal, kindOf } from '../weights/architecture.ts';
import type { GradientSum, Trained } from './adapter-vector.ts';
import { type BatchFeeds, batchFeeds } from './batch-feeds.ts';
import {
  type BaseWeights,
  partFeeds,
  type TrainedTensor,
  trainedTensors,
  weightFeeds,
} from './layer-feeds.ts';
import type { Selection } from './selection.ts';
import type { PaddedTokens } from './shared-prefixes.ts';
import { TokenEmbedding } from './token-embedding.ts';

/** A forward pass through the layers, of which the input of each layer is kept. */
export interface LayerPass {
  batch: PaddedTokens;
  /** [tokens, width]: the input of each layer, then the last layer's output. */
  states: Tensor[];
  /** What each layer kept for the backward pass; null where that pass computes it again. */
  tapes: (Feeds | null)[];
  /** What is trained; null for a pass of the checkpoint as it is. */
  vector: Float32Array | null;
  shared: BatchFeeds;
  /** When it is aborted, no further layer runs. */
  signal: AbortSignal | undefined;
}

interface PassOptions {
  /** The number of layers, the last ones, that keep what their backward pass needs: see `keptLayers`. Default 0. */
  keptLayers?: number;
  /** The states of the last layer's output that are wanted; null for all, which is the default. Not on WebGPU. */
  selection?: Selection | null;
  signal?: AbortSignal | undefined;
}

/**
 * Runs sequences through the layers of a checkpoint, with a LoRA adapter or with weights that are all trained, forward and
 * backward, one layer at a time: the same graphs for all layers, on weights that stay where they are in memory.
 */
export class LayerRunner {
  readonly #runtime: Runtime;
  readonly #base: BaseWeights;
  readonly #embedding: TokenEmbedding;
  readonly #sessions: LayerSessions;
  /** The checkpoint's own weights. */
  readonly #layers: Feeds[];
  readonly #trained: TrainedTensor[][];

  constructor(runtime: Runtime, base: BaseWeights, trained: Trained) {
    const { architecture } = base;
    this.#runtime = runtime;
    this.#base = base;
    this.#embedding = new TokenEmbedding(base, trained);
    this.#sessions = new LayerSessions(runtime, base, trained);
    this.#layers = Array.from({ length: architecture.layers }, (_, layer) =>
      weightFeeds(runtime, base, layer),
    );
    this.#trained = trainedTensors(architecture, trained);
  }

  /** `vector`: what is trained, flat; null runs the checkpoint as it is. */
  async forward(
    batch: PaddedTokens,
    vector: Float32Array | null,
    { keptLayers = 0, selection = null, signal }: PassOptions = {},
  ): Promise<LayerPass> {
    const { architecture } = this.#base;
    const shared = batchFeeds(this.#runtime, architecture, batch, selection);
    const first = this.#embedding.states(batch, vector);
    const states = [this.#runtime.float(first, [first.length / architecture.width, architecture.width])];
    const tapes: (Feeds | null)[] = [];
    for (const layer of this.#layers.keys()) {
      await untilMessagesArrived(signal);
      const keeps = vector !== null && layer >= this.#layers.length - keptLayers;
      const session = await this.#session(keeps ? 'keeping' : vector ? 'forward' : 'base', shared, layer);
      const feeds = {
        ...this.#feeds(shared, layer),
        ...this.#weights(vector, layer),
        state: states[layer] as Tensor,
      };
      const steps = this.#selects(shared, layer) ? selection?.steps : undefined;
      const outputs = this.#outputs(layer, {
        sequences: batch.sequences.length,
        time: batch.time,
        steps,
        keeps,
      });
      const { next, ...tape } = await session.run(feeds, outputs);
      states.push(next as Tensor);
      tapes.push(keeps ? (tape as Feeds) : null);
    }
    return { batch, states, tapes, vector, shared, signal };
  }

  /**
   * Adds the gradient of what is trained to `sum`, from dLoss/dstates of the last layer's output [states, width]. Ends the
   * pass.
   */
  async backward(pass: LayerPass, gradient: Float32Array, sum: GradientSum): Promise<void> {
    const { batch, states, tapes, shared, vector, signal } = pass;
    if (!vector) throw new Error('a forward pass of the base model has no gradient');
    const { width } = this.#base.architecture;
    let outer = this.#runtime.float(gradient, [gradient.length / width, width]);
    for (let layer = this.#layers.length - 1; layer >= 0; layer--) {
      await untilMessagesArrived(signal);
      freeTensors([states.pop() as Tensor]);
      const tape = tapes.pop() ?? null;
      const session = await this.#session(tape ? 'fromTape' : 'backward', shared, layer);
      const outputs = await session.run({
        ...this.#feeds(shared, layer),
        ...this.#weights(vector, layer),
        ...tape,
        ...(this.#selects(shared, layer) ? shared.last?.backward : {}),
        state: states[layer] as Tensor,
        gradient: outer,
      });
      freeTensors(Object.values(tape ?? {}));
      const { state_gradient: next, ...gradients } = outputs;
      for (const { input, offset } of this.#trained[layer] as TrainedTensor[])
        sum.add(offset, gradients[`${input}.gradient`]?.data as Float32Array);
      freeTensors([outer]);
      outer = next as Tensor;
    }
    this.#embedding.addGradient(batch, outer.data as Float32Array, sum);
    this.end(pass);
  }

  /** Frees a pass that has no backward pass. */
  end({ states, tapes }: LayerPass): void {
    freeTensors([...states.splice(0), ...tapes.splice(0).flatMap((tape) => Object.values(tape ?? {}))]);
  }

  release(): Promise<void> {
    return this.#sessions.release();
  }

  #session(pass: keyof typeof graphs, feeds: BatchFeeds, layer: number): Promise<Session> {
    const kind = kindOf(this.#base.architecture, layer);
    return this.#sessions.of(pass, { kind, selects: this.#selects(feeds, layer) });
  }

  #selects({ last }: BatchFeeds, layer: number): boolean {
    return last !== null && layer === this.#layers.length - 1;
  }

  /** Room for what a layer's forward pass outputs. `steps`: of each row, if the layer computes selected states only. */
  #outputs(
    layer: number,
    { keeps, ...batch }: { sequences: number; time: number; steps: number | undefined; keeps: boolean },
  ): Feeds {
    const { architecture } = this.#base;
    const lengths = lengthsOf(architecture, batch);
    const options = { kind: kindOf(architecture, layer), selects: batch.steps !== undefined };
    const kept = keeps ? keptShapes(architecture, options) : [];
    return this.#runtime.outputs([
      ['next', sized(['picked', architecture.width], lengths)],
      ...Array.from(kept, ([part, shape]) => [`tape.${part}`, sized(shape, lengths)] as const),
    ]);
  }

  /** What a batch gives, for one layer. */
  #feeds(feeds: BatchFeeds, layer: number): Feeds {
    if (feeds.last && this.#selects(feeds, layer)) return feeds.last.forward;
    if (kindOf(this.#base.architecture, layer) === 'convolution') return feeds.convolution;
    return isLocal(this.#base.architecture, layer) ? feeds.local : feeds.global;
  }

  /** A layer's inputs: the checkpoint's weights, and in their place or beside them what is trained. */
  #weights(vector: Float32Array | null, layer: number): Feeds {
    const own = this.#layers[layer] as Feeds;
    if (!vector) return own;
    return { ...own, ...partFeeds(this.#runtime, this.#trained[layer] as TrainedTensor[], vector) };
  }
}

const graphs = {
  /** Forward without anything that is trained. */
  base: layerForwardGraph,
  forward: layerForwardGraph,
  backward: layerBackwardGraph,
  /** Forward, keeping what `fromTape`, a backward pass, needs. */
  keeping: layerKeepingGraph,
  fromTape: layerTapeGraph,
};

/** The sessions of a layer's graphs, created when they are first needed. */
class LayerSessions {
  readonly #runtime: Runtime;
  readonly #base: BaseWeights;
  readonly #trained: LayerGraphOptions['trained'];
  readonly #sessions = new Map<string, Promise<Session>>();

  constructor(runtime: Runtime, base: BaseWeights, trained: Trained) {
    this.#runtime = runtime;
    this.#base = base;
    this.#trained =
      trained === 'all' ? trained : { targets: trained.targets, scale: trained.alpha / trained.rank };
  }

  of(pass: keyof typeof graphs, layer: Pick<LayerGraphOptions, 'kind' | 'selects'>): Promise<Session> {
    const key = `${pass} ${layer.kind} ${layer.selects}`;
    const session = this.#sessions.get(key) ?? this.#create(pass, layer);
    this.#sessions.set(key, session);
    session.catch(() => this.#sessions.delete(key));
    return session;
  }

  async release(): Promise<void> {
    const sessions = await Promise.allSettled(this.#sessions.values());
    this.#sessions.clear();
    for (const session of sessions) if (session.status === 'fulfilled') await session.value.release();
  }

  #create(pass: keyof typeof graphs, layer: Pick<LayerGraphOptions, 'kind' | 'selects'>): Promise<Session> {
    const trained = pass === 'base' ? { targets: [], scale: 1 } : this.#trained;
    const isFused = this.#runtime.device === 'cpu';
    return this.#runtime.session(graphs[pass](this.#base.architecture, { trained, isFused, ...layer }));
  }
}

const freeTensors = (tensors: readonly Tensor[]) => freeAll(tensors.map(({ data }) => data as Float32Array));

/** Lets a cancellation arrive: not every runtime leaves the event loop free during a run. */
async function untilMessagesArrived(signal: AbortSignal | undefined): Promise<void> {
  await new Promise(setImmediate);
  signal?.throwIfAborted();
}
