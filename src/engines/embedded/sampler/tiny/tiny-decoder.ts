import type { Tensor } from 'onnxruntime-common';
import { embeddingTables } from '../../checkpoint/tensors.ts';
import { logitRowsOf } from '../../graphs/logit-outputs.ts';
import { tinyDecodingGraphs } from '../../graphs/tiny-decoding-graphs.ts';
import { trainedShapes } from '../../runner/adapter-vector.ts';
import { freeAll, type Runtime, type Session } from '../../runtime.ts';
import type { LogitRows } from '../../sampling/distribution.ts';
import type { Architecture } from '../../weights/architecture.ts';
import { type Chunk, type Decoder, rowsOf, type SlotCache, type StepOutput } from '../decoder.ts';
import { TinyCache } from './tiny-cache.ts';
import { TinyMemory, tokensPerPart } from './tiny-memory.ts';

/** Bytes of a number. */
const size = 4;

/** A token to compute. */
interface Token {
  /** A slot of the memory. */
  slot: number;
  tokens: readonly number[];
  position: number;
}

/** Tokens that are computed at once, and the indices of those after which logits are needed, ascending. */
interface Part {
  tokens: Token[];
  picks: number[];
}

/**
 * Runs tokens through the weights of a tiny model: matrix products by graphs of ONNX Runtime, which come between the
 * attentions, and embeddings, the key-value cache and attention by functions of WebAssembly, which know what each token
 * needs of the cache and read it in place.
 *
 * A token's logits have the same bits in any batch, and however its sequence was cut into chunks: the products are of a
 * flat list of tokens, without padding, and attention computes each token on its own.
 */
export class TinyDecoder implements Decoder {
  readonly cache: SlotCache;
  readonly #runtime: Runtime;
  readonly #stages: Session[];
  readonly #memory: TinyMemory;
  readonly #firstSlot: number;
  /** The outputs of the last run. */
  #rows: LogitRows | undefined;

  private constructor(runtime: Runtime, stages: Session[], memory: TinyMemory, firstSlot: number) {
    this.#runtime = runtime;
    this.#stages = stages;
    this.#memory = memory;
    this.#firstSlot = firstSlot;
    this.cache = new TinyCache(memory, firstSlot);
  }

  /** `weights`: all parameters of the model. */
  static async create(
    runtime: Runtime,
    architecture: Architecture,
    weights: Float32Array,
  ): Promise<TinyDecoder> {
    const memory = new TinyMemory(architecture, weights);
    const decoder = new TinyDecoder(runtime, [], memory, 1);
    try {
      for (const model of tinyDecodingGraphs(architecture, {
        vector: weights,
        shapes: trainedShapes(architecture, 'all'),
      })) {
        decoder.#stages.push(await runtime.session(model));
        freeAll([model]);
      }
    } catch (error) {
      await decoder.close();
      throw error;
    }
    return decoder;
  }

  /** Its cache is the first slot of the memory. */
  twin(): TinyDecoder {
    return new TinyDecoder(this.#runtime, this.#stages, this.#memory, 0);
  }

  /** Of the hidden layer: attention keeps no scores. */
  get elementsPerToken(): number {
    return this.#memory.architecture.mlpWidth;
  }

  async close(): Promise<void> {
    for (const session of this.#stages) await session.release();
    this.#memory.release();
  }

  async run(firstSlot: number, chunks: readonly Chunk[], { everyToken = false } = {}): Promise<LogitRows> {
    freeAll(Object.values(this.#rows ?? {}));
    const parts = partsOf(this.#firstSlot + firstSlot, chunks, everyToken);
    const computed: { rows: LogitRows; count: number }[] = [];
    for (const part of parts) {
      const rows = await this.#compute(part);
      if (rows) computed.push({ rows, count: part.picks.length });
    }
    const [first] = computed;
    this.#rows = first && computed.length === 1 ? first.rows : joinRows(computed);
    return this.#rows;
  }

  async step(firstSlot: number, chunks: readonly Chunk[]): Promise<StepOutput> {
    return { rows: await this.run(firstSlot, chunks), outcomes: rowsOf(chunks) };
  }

  /** The logits after the picked tokens; null if none is picked. */
  async #compute({ tokens, picks }: Part): Promise<LogitRows | null> {
    const memory = this.#memory;
    const { kernels, scratch, architecture } = memory;
    const { width } = architecture;
    const all = [...tokens.keys()];
    embed(memory, tokens);
    let state = memory.view(scratch.embedded, padded(tokens.length) * width);
    const [first, ...layers] = this.#stages as [Session, ...Session[]];
    let outputs = await first.run({ state_in: this.#rowsOf(state) });
    for (const [layer, session] of layers.entries()) {
      const packed = outputs.packed?.data as Float32Array;
      memory.floats.set(packed, scratch.packed / size);
      freeAll([packed]);
      const query = (index: number) => scratch.packed + index * 3 * width * size;
      for (const [index, { slot, position }] of tokens.entries())
        kernels.store(query(index), memory.cache(slot, layer), position);
      const needed = layer + 1 < layers.length ? all : picks;
      if (needed.length === 0) {
        if (layer > 0) freeAll([state]);
        return null;
      }
      const isWhole = needed.length === all.length && needed.every((index, row) => index === row);
      const taken = isWhole ? state : memory.pick(state, needed);
      for (const [row, index] of needed.entries()) {
        const { slot, position } = tokens[index] as Token;
        const output = scratch.mixed + row * width * size;
        kernels.mix(query(index), memory.cache(slot, layer), position, scratch.scores, output);
      }
      const mixed = memory.view(scratch.mixed, padded(needed.length) * width);
      outputs = await session.run({ state_in: this.#rowsOf(taken), mixed: this.#rowsOf(mixed) });
      if (layer > 0) freeAll([state]);
      state = outputs.state?.data as Float32Array;
    }
    return logitRowsOf(outputs);
  }

  #rowsOf(states: Float32Array): Tensor {
    const { width } = this.#memory.architecture;
    return this.#runtime.float(states, [states.length / width, width]);
  }
}

/** A product of one row rounds differently from others, so that there are always two. */
const padded = (rows: number) => Math.max(2, rows);

/** Cuts chunks for the slots from `firstSlot` into parts. An empty chunk picks nothing. */
function partsOf(firstSlot: number, chunks: readonly Chunk[], everyToken: boolean): Part[] {
  const parts: Part[] = [];
  let part: Part | undefined;
  chunks.forEach(({ tokens, start, end }, index) => {
    for (let position = start; position < end; position++) {
      if (!part || part.tokens.length === tokensPerPart) {
        part = { tokens: [], picks: [] };
        parts.push(part);
      }
      part.tokens.push({ slot: firstSlot + index, tokens, position });
      if (everyToken) part.picks.push(part.tokens.length - 1);
    }
    if (!everyToken && start < end) part?.picks.push(part.tokens.length - 1);
  });
  return parts;
}

/** The first `count` rows of each. */
function joinRows(computed: readonly { rows: LogitRows; count: number }[]): LogitRows {
  const join = (name: keyof LogitRows) => {
    const arrays = computed.map(({ rows, count }) => {
      const values = rows[name];
      return values.subarray(0, (values.length / rows.largest.length) * count);
    });
    const joined = new Float32Array(arrays.reduce((sum, { length }) => sum + length, 0));
    let offset = 0;
    for (const array of arrays) {
      joined.set(array, offset);
      offset += array.length;
    }
    return joined;
  };
  const joined = { logits: join('logits'), likelihoods: join('likelihoods'), largest: join('largest') };
  for (const { rows } of computed) freeAll(Object.values(rows));
  return joined;
}

/** Adds up the embeddings of the tokens. */
function embed(memory: TinyMemory, tokens: readonly Token[]): void {
  const { architecture, kernels, scratch, integers } = memory;
  const { width } = architecture;
  const tables = embeddingTables(architecture).map(({ name, distance }) => ({
    address: memory.table(name),
    distance,
  }));
  let at = scratch.addresses / size;
  for (const { tokens: ids, position } of tokens)
    for (const { address, distance } of tables) {
      // Before the sequence there is token 0.
      const row = distance === null ? position : (ids[position - distance] ?? 0);
      integers[at++] = address + row * width * size;
    }
  kernels.embed(scratch.addresses, scratch.embedded, tokens.length);
}
