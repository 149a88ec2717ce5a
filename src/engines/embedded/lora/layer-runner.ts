import type { Tensor } from 'onnxruntime-common';
import { EngineError } from '../../engine.ts';
import { embeddingTensor } from '../checkpoint/tensors.ts';
import {
  loraBackwardGraph,
  loraForwardGraph,
  loraKeepingGraph,
  loraTapeGraph,
} from '../graphs/lora-graphs.ts';
import { type Feeds, freeAll, type Runtime, type Session } from '../runtime.ts';
import { type Architecture, isLocal, kindOf, kindsOf, type LayerKind } from '../weights/architecture.ts';
import { type GradientSum, mostRowElements, type Trained, trainedShapes } from './adapter-vector.ts';
import {
  type BatchFeeds,
  batchFeeds,
  type LoraBase,
  partFeeds,
  type TrainedTensor,
  trainedTensors,
  weightFeeds,
  weightOf,
} from './layer-feeds.ts';
import type { PaddedTokens } from './shared-prefixes.ts';

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

export interface PassOptions {
  /** The number of layers, the last ones, that keep what their backward pass needs: see `keptLayers`. Default 0. */
  keptLayers?: number;
  signal?: AbortSignal | undefined;
}

/**
 * Runs sequences through the layers of a checkpoint, with a LoRA adapter or with weights that are all trained, forward and
 * backward, one layer at a time: the same graphs for all layers, on weights that stay where they are in memory.
 */
export class LayerRunner {
  readonly #runtime: Runtime;
  readonly #base: LoraBase;
  readonly #sessions: ReadonlyMap<LayerKind, LayerSessions>;
  /** The checkpoint's own weights. */
  readonly #layers: Feeds[];
  readonly #trained: TrainedTensor[][];
  /** Offset of the embeddings in the vector; null if they are not trained. */
  readonly #embeddings: number | null;

  private constructor(
    runtime: Runtime,
    base: LoraBase,
    trained: Trained,
    sessions: ReadonlyMap<LayerKind, LayerSessions>,
  ) {
    const { architecture } = base;
    this.#runtime = runtime;
    this.#base = base;
    this.#sessions = sessions;
    this.#layers = Array.from({ length: architecture.layers }, (_, layer) =>
      weightFeeds(runtime, base, layer),
    );
    this.#trained = trainedTensors(architecture, trained);
    const table = trainedShapes(architecture, trained).find(({ name }) => name === embeddingTensor);
    this.#embeddings = table?.offset ?? null;
  }

  static async create(runtime: Runtime, base: LoraBase, trained: Trained): Promise<LayerRunner> {
    const { architecture } = base;
    const sessions = new Map<LayerKind, LayerSessions>();
    for (const kind of kindsOf(architecture))
      sessions.set(kind, await sessionsOf(runtime, architecture, trained, kind));
    return new LayerRunner(runtime, base, trained, sessions);
  }

  /** `vector`: what is trained, flat; null runs the checkpoint as it is. */
  async forward(
    batch: PaddedTokens,
    vector: Float32Array | null,
    { keptLayers = 0, signal }: PassOptions = {},
  ): Promise<LayerPass> {
    const shared = batchFeeds(this.#runtime, this.#base.architecture, batch);
    const states = [this.#embed(batch, vector)];
    const tapes: (Feeds | null)[] = [];
    for (const layer of this.#layers.keys()) {
      const { base, forward, keeping } = this.#sessionsOf(layer);
      await untilMessagesArrived(signal);
      const feeds = { ...this.#own(shared, layer), ...this.#weights(vector, layer) };
      const keeps = vector !== null && layer >= this.#layers.length - keptLayers;
      const session = keeps ? keeping : vector ? forward : base;
      const { next, ...tape } = await session.run({ ...feeds, state: states[layer] as Tensor });
      states.push(next as Tensor);
      tapes.push(keeps ? (tape as Feeds) : null);
    }
    return { batch, states, tapes, vector, shared, signal };
  }

  /**
   * Adds the gradient of what is trained to `sum`, from dLoss/dstates of the last layer's output [tokens, width]. Ends the
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
      const { fromTape, backward } = this.#sessionsOf(layer);
      const session = tape ? fromTape : backward;
      const outputs = await session.run({
        ...this.#own(shared, layer),
        ...this.#weights(vector, layer),
        ...tape,
        state: states[layer] as Tensor,
        gradient: outer,
      });
      freeTensors(Object.values(tape ?? {}));
      const { state_gradient: next, ...gradients } = outputs;
      for (const { input, offset } of this.#trained[layer] as TrainedTensor[]) {
        const part = gradients[`${input}.gradient`]?.data as Float32Array;
        sum.add(offset, part);
        freeAll([part]);
      }
      freeTensors([outer]);
      outer = next as Tensor;
    }
    if (this.#embeddings !== null)
      addEmbeddings(sum, this.#embeddings, {
        ...batch,
        width,
        gradient: scaled(outer.data as Float32Array, this.#base.architecture.embeddingScale),
      });
    freeTensors([outer]);
    this.end(pass);
  }

  /** Frees a pass that has no backward pass. */
  end({ states, tapes }: LayerPass): void {
    freeTensors([...states.splice(0), ...tapes.splice(0).flatMap((tape) => Object.values(tape ?? {}))]);
  }

  async release(): Promise<void> {
    for (const sessions of this.#sessions.values())
      for (const session of Object.values(sessions)) await session.release();
  }

  #embed({ sequences, time }: PaddedTokens, vector: Float32Array | null): Tensor {
    const { width, vocabularySize, embeddingScale } = this.#base.architecture;
    const table =
      vector && this.#embeddings !== null
        ? vector.subarray(this.#embeddings, this.#embeddings + vocabularySize * width)
        : weightOf(this.#base, embeddingTensor);
    const states = new Float32Array(sequences.length * time * width);
    for (const [row, tokens] of sequences.entries())
      for (const [at, token] of tokens.entries()) {
        if (!(token < vocabularySize))
          throw new EngineError(
            'bad_datum',
            `token ${at} of a sequence is ${token}, outside the vocabulary of ${vocabularySize} tokens`,
          );
        states.set(table.subarray(token * width, (token + 1) * width), (row * time + at) * width);
      }
    return this.#runtime.float(scaled(states, embeddingScale), [sequences.length * time, width]);
  }

  #sessionsOf(layer: number): LayerSessions {
    return this.#sessions.get(kindOf(this.#base.architecture, layer)) as LayerSessions;
  }

  /** A layer's part of what a batch gives. */
  #own({ global, local, convolution }: BatchFeeds, layer: number): Feeds {
    if (kindOf(this.#base.architecture, layer) === 'convolution') return convolution;
    return isLocal(this.#base.architecture, layer) ? local : global;
  }

  /** A layer's inputs: the checkpoint's weights, and in their place or beside them what is trained. */
  #weights(vector: Float32Array | null, layer: number): Feeds {
    const own = this.#layers[layer] as Feeds;
    if (!vector) return own;
    return { ...own, ...partFeeds(this.#runtime, this.#trained[layer] as TrainedTensor[], vector) };
  }
}

/** Multiplies in place. */
function scaled(values: Float32Array, factor: number): Float32Array {
  if (factor !== 1) for (let at = 0; at < values.length; at++) values[at] = (values[at] as number) * factor;
  return values;
}

/**
 * Adds the gradient of the embedded tokens [tokens, width] to the rows of the tokens in the table at `offset`, one after
 * another: many positions share a token.
 */
function addEmbeddings(
  sum: GradientSum,
  offset: number,
  { sequences, time, width, gradient }: PaddedTokens & { width: number; gradient: Float32Array },
): void {
  const rows = Math.max(1, Math.floor(mostRowElements / width));
  for (const [row, tokens] of sequences.entries())
    for (let start = 0; start < tokens.length; start += rows) {
      const some = tokens.slice(start, start + rows);
      const first = (row * time + start) * width;
      sum.addRows(gradient.subarray(first, first + some.length * width), width, (add) => {
        for (const [index, token] of some.entries()) add(index, offset + token * width);
      });
    }
}

interface LayerSessions {
  /** Forward without anything that is trained. */
  base: Session;
  forward: Session;
  backward: Session;
  /** Forward, keeping what `fromTape`, a backward pass, needs. */
  keeping: Session;
  fromTape: Session;
}

async function sessionsOf(
  runtime: Runtime,
  architecture: Architecture,
  trained: Trained,
  kind: LayerKind,
): Promise<LayerSessions> {
  const none = { targets: [], scale: 1 };
  const part =
    trained === 'all' ? trained : { targets: trained.targets, scale: trained.alpha / trained.rank };
  return {
    base: await runtime.session(loraForwardGraph(architecture, none, kind)),
    forward: await runtime.session(loraForwardGraph(architecture, part, kind)),
    backward: await runtime.session(loraBackwardGraph(architecture, part, kind)),
    keeping: await runtime.session(loraKeepingGraph(architecture, part, kind)),
    fromTape: await runtime.session(loraTapeGraph(architecture, part, kind)),
  };
}

const freeTensors = (tensors: readonly Tensor[]) => freeAll(tensors.map(({ data }) => data as Float32Array));

/** Lets a cancellation arrive: not every runtime leaves the event loop free during a run. */
async function untilMessagesArrived(signal: AbortSignal | undefined): Promise<void> {
  await new Promise(setImmediate);
  signal?.throwIfAborted();
}
