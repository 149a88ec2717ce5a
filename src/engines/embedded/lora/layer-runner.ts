import type { Tensor } from 'onnxruntime-common';
import { EngineError } from '../../engine.ts';
import { rotaryTables } from '../checkpoint/rotary-tables.ts';
import { loraBackwardGraph, loraForwardGraph } from '../graphs/lora-graphs.ts';
import { type Feeds, freeAll, type Runtime, type Session } from '../runtime.ts';
import type { LoraSettings } from './adapter-vector.ts';
import { adapterFeeds, adapterParts, type LoraBase, weightFeeds } from './layer-feeds.ts';

/** Padded sequences that run together. */
export interface PaddedTokens {
  sequences: readonly (readonly number[])[];
  /** Padded length. */
  time: number;
}

/** A forward pass through the layers, of which the input of each layer is kept. */
export interface LayerPass {
  /** [tokens, width]: the input of each layer, then the last layer's output. */
  states: Tensor[];
  adapter: Float32Array | null;
  shared: Feeds;
  /** When it is aborted, no further layer runs. */
  signal: AbortSignal | undefined;
}

const masked = -1e9;

/**
 * Runs sequences through the layers of a checkpoint with a LoRA adapter, forward and backward, one layer at a time: the
 * same two graphs for all layers, on weights that stay where they are in memory.
 */
export class LayerRunner {
  readonly #runtime: Runtime;
  readonly #base: LoraBase;
  readonly #lora: LoraSettings;
  readonly #sessions: { base: Session; forward: Session; backward: Session };
  readonly #layers: Feeds[];

  private constructor(
    runtime: Runtime,
    base: LoraBase,
    lora: LoraSettings,
    sessions: { base: Session; forward: Session; backward: Session },
  ) {
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
    });
  }

  /** `adapter`: the flat vector; null runs the base model. */
  async forward(batch: PaddedTokens, adapter: Float32Array | null, signal?: AbortSignal): Promise<LayerPass> {
    const shared = this.#sharedFeeds(batch);
    const states = [this.#embed(batch)];
    const session = adapter ? this.#sessions.forward : this.#sessions.base;
    for (const [layer, weights] of this.#layers.entries()) {
      await untilMessagesArrived(signal);
      const feeds = { ...shared, ...weights, ...this.#adapterFeeds(adapter, layer) };
      const { next } = await session.run({ ...feeds, state: states[layer] as Tensor });
      states.push(next as Tensor);
    }
    return { states, adapter, shared, signal };
  }

  /**
   * Adds the adapter's gradient to `total`, a vector like the adapter's, from dLoss/dstates of the last layer's output
   * [tokens, width]. Ends the pass.
   */
  async backward(pass: LayerPass, gradient: Float32Array, total: Float32Array): Promise<void> {
    const { states, shared, adapter, signal } = pass;
    if (!adapter) throw new Error('a forward pass of the base model has no gradient');
    const { width } = this.#base.architecture;
    let outer = this.#runtime.float(gradient, [gradient.length / width, width]);
    for (let layer = this.#layers.length - 1; layer >= 0; layer--) {
      await untilMessagesArrived(signal);
      freeAll([states.pop()?.data as Float32Array]);
      const feeds = { ...shared, ...this.#layers[layer], ...this.#adapterFeeds(adapter, layer) };
      const outputs = await this.#sessions.backward.run({
        ...feeds,
        state: states[layer] as Tensor,
        gradient: outer,
      });
      const { state_gradient: next, ...gradients } = outputs;
      for (const { input, offset } of this.#adapterParts(layer)) {
        const part = gradients[`${input}.gradient`]?.data as Float32Array;
        for (let index = 0; index < part.length; index++)
          total[offset + index] = (total[offset + index] as number) + (part[index] as number);
        freeAll([part]);
      }
      freeAll([outer.data as Float32Array]);
      outer = next as Tensor;
    }
    freeAll([outer.data as Float32Array]);
    this.end(pass);
  }

  /** Frees a pass that has no backward pass. */
  end({ states }: LayerPass): void {
    freeAll(states.splice(0).map(({ data }) => data as Float32Array));
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

  #sharedFeeds({ sequences, time }: PaddedTokens): Feeds {
    const { positions: kind, heads, keyValueHeads, headWidth } = this.#base.architecture;
    const batch = sequences.length;
    const causal = new Float32Array(time * time);
    for (let at = 0; at < time; at++) causal.fill(masked, at * time + at + 1, (at + 1) * time);
    const positions = BigInt64Array.from({ length: batch * time }, (_, index) => BigInt(index % time));
    const shape = (count: number) =>
      this.#runtime.integer(BigInt64Array.from([batch, time, count, headWidth], BigInt), [4]);
    const feeds: Feeds = {
      query_shape: shape(heads),
      key_shape: shape(keyValueHeads),
      causal: this.#runtime.float(causal, [time, time]),
      positions: this.#runtime.integer(positions, [batch, time]),
    };
    if (kind === 'learned') return feeds;
    const { cosines, sines } = rotaryTables(kind, headWidth, time);
    const table = (data: Float32Array) => this.#runtime.float(data, [time, headWidth / 2]);
    return { ...feeds, cosines: table(cosines), sines: table(sines) };
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

/** Lets a cancellation arrive: not every runtime leaves the event loop free during a run. */
async function untilMessagesArrived(signal: AbortSignal | undefined): Promise<void> {
  await new Promise(setImmediate);
  signal?.throwIfAborted();
}
