import type { Tensor } from 'onnxruntime-common';
import { EngineError } from '../../engine.ts';
import {
  loraBackwardGraph,
  loraForwardGraph,
  loraKeepingGraph,
  loraTapeGraph,
} from '../graphs/lora-graphs.ts';
import { type Feeds, freeAll, type Runtime, type Session } from '../runtime.ts';
import type { LoraSettings } from './adapter-vector.ts';
import {
  adapterFeeds,
  adapterParts,
  batchFeeds,
  type LoraBase,
  type PaddedTokens,
  weightFeeds,
} from './layer-feeds.ts';

/** A forward pass through the layers, of which the input of each layer is kept. */
export interface LayerPass {
  /** [tokens, width]: the input of each layer, then the last layer's output. */
  states: Tensor[];
  /** What each layer kept for the backward pass; null where that pass computes it again. */
  tapes: (Feeds | null)[];
  adapter: Float32Array | null;
  shared: Feeds;
  /** When it is aborted, no further layer runs. */
  signal: AbortSignal | undefined;
}

export interface PassOptions {
  /** The number of layers, the last ones, that keep what their backward pass needs: see `keptLayers`. Default 0. */
  keptLayers?: number;
  signal?: AbortSignal | undefined;
}

/**
 * Runs sequences through the layers of a checkpoint with a LoRA adapter, forward and backward, one layer at a time: the
 * same graphs for all layers, on weights that stay where they are in memory.
 */
export class LayerRunner {
  readonly #runtime: Runtime;
  readonly #base: LoraBase;
  readonly #lora: LoraSettings;
  readonly #sessions: LayerSessions;
  readonly #layers: Feeds[];

  private constructor(runtime: Runtime, base: LoraBase, lora: LoraSettings, sessions: LayerSessions) {
    this.#runtime = runtime;
    this.#base = base;
    this.#lora = lora;
    this.#sessions = sessions;
    this.#layers = Array.from({ length: base.architecture.layers }, (_, layer) =>
      weightFeeds(runtime, base, layer),
    );
  }

  static async create(runtime: Runtime, base: LoraBase, lora: LoraSettings): Promise<LayerRunner> {
    const { architecture } = base;
    const targets = { targets: lora.targets, scale: lora.alpha / lora.rank };
    return new LayerRunner(runtime, base, lora, {
      base: await runtime.session(loraForwardGraph(architecture, { targets: [], scale: 1 })),
      forward: await runtime.session(loraForwardGraph(architecture, targets)),
      backward: await runtime.session(loraBackwardGraph(architecture, targets)),
      keeping: await runtime.session(loraKeepingGraph(architecture, targets)),
      fromTape: await runtime.session(loraTapeGraph(architecture, targets)),
    });
  }

  /** `adapter`: the flat vector; null runs the base model. */
  async forward(
    batch: PaddedTokens,
    adapter: Float32Array | null,
    { keptLayers = 0, signal }: PassOptions = {},
  ): Promise<LayerPass> {
    const shared = batchFeeds(this.#runtime, this.#base.architecture, batch);
    const states = [this.#embed(batch)];
    const tapes: (Feeds | null)[] = [];
    const { base, forward, keeping } = this.#sessions;
    for (const [layer, weights] of this.#layers.entries()) {
      await untilMessagesArrived(signal);
      const feeds = { ...shared, ...weights, ...this.#adapterFeeds(adapter, layer) };
      const keeps = adapter !== null && layer >= this.#layers.length - keptLayers;
      const session = keeps ? keeping : adapter ? forward : base;
      const { next, ...tape } = await session.run({ ...feeds, state: states[layer] as Tensor });
      states.push(next as Tensor);
      tapes.push(keeps ? (tape as Feeds) : null);
    }
    return { states, tapes, adapter, shared, signal };
  }

  /**
   * Adds the adapter's gradient to `total`, a vector like the adapter's, from dLoss/dstates of the last layer's output
   * [tokens, width]. Ends the pass.
   */
  async backward(pass: LayerPass, gradient: Float32Array, total: Float32Array): Promise<void> {
    const { states, tapes, shared, adapter, signal } = pass;
    if (!adapter) throw new Error('a forward pass of the base model has no gradient');
    const { width } = this.#base.architecture;
    let outer = this.#runtime.float(gradient, [gradient.length / width, width]);
    for (let layer = this.#layers.length - 1; layer >= 0; layer--) {
      await untilMessagesArrived(signal);
      freeTensors([states.pop() as Tensor]);
      const tape = tapes.pop() ?? null;
      const session = tape ? this.#sessions.fromTape : this.#sessions.backward;
      const outputs = await session.run({
        ...shared,
        ...this.#layers[layer],
        ...this.#adapterFeeds(adapter, layer),
        ...tape,
        state: states[layer] as Tensor,
        gradient: outer,
      });
      freeTensors(Object.values(tape ?? {}));
      const { state_gradient: next, ...gradients } = outputs;
      for (const { input, offset } of this.#adapterParts(layer)) {
        const part = gradients[`${input}.gradient`]?.data as Float32Array;
        for (let index = 0; index < part.length; index++)
          total[offset + index] = (total[offset + index] as number) + (part[index] as number);
        freeAll([part]);
      }
      freeTensors([outer]);
      outer = next as Tensor;
    }
    freeTensors([outer]);
    this.end(pass);
  }

  /** Frees a pass that has no backward pass. */
  end({ states, tapes }: LayerPass): void {
    freeTensors([...states.splice(0), ...tapes.splice(0).flatMap((tape) => Object.values(tape ?? {}))]);
  }

  async release(): Promise<void> {
    for (const session of Object.values(this.#sessions)) await session.release();
  }

  #embed({ sequences, time }: PaddedTokens): Tensor {
    const { architecture, weights } = this.#base;
    const { width, vocabularySize } = architecture;
    const table = weights.get('model.embed_tokens.weight') as Float32Array;
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
    return this.#runtime.float(states, [sequences.length * time, width]);
  }

  /** The adapter's tensors in a layer, each with its name in the graphs. */
  #adapterParts(layer: number) {
    return adapterParts(this.#base.architecture, this.#lora, layer);
  }

  #adapterFeeds(vector: Float32Array | null, layer: number): Feeds {
    if (!vector) return {};
    return adapterFeeds(this.#runtime, this.#base.architecture, { lora: this.#lora, vector }, layer);
  }
}

interface LayerSessions {
  /** Forward without the adapter. */
  base: Session;
  forward: Session;
  backward: Session;
  /** Forward, keeping what `fromTape`, a backward pass, needs. */
  keeping: Session;
  fromTape: Session;
}

const freeTensors = (tensors: readonly Tensor[]) => freeAll(tensors.map(({ data }) => data as Float32Array));

/** Lets a cancellation arrive: not every runtime leaves the event loop free during a run. */
async function untilMessagesArrived(signal: AbortSignal | undefined): Promise<void> {
  await new Promise(setImmediate);
  signal?.throwIfAborted();
}
