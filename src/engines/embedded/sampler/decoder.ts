import type { InferenceSession, Tensor } from 'onnxruntime-common';
import { sumOf } from '../../../util/sums.ts';
import { type EmbeddingTable, embeddingTables } from '../checkpoint/tensors.ts';
import { type AttentionKind, choosesTokens } from '../graphs/decoding-graphs.ts';
import { logitRowsOf } from '../graphs/logit-outputs.ts';
import { type BaseWeights, kernelsOf, weightOf } from '../runner/layer-feeds.ts';
import { addUpRows } from '../runner/token-embedding.ts';
import { type Feeds, freeAll, type Runtime } from '../runtime.ts';
import type { LogitRows } from '../sampling/distribution.ts';
import type { Architecture } from '../weights/architecture.ts';
import {
  atLeast,
  attentionKind,
  type CachedAttention,
  type Chunk,
  type SlotCache,
  type TokenRange,
} from './cached-attention.ts';
import type { DecodedAdapter, DecodingStage, DecodingStages } from './decoding-stages.ts';
import { type Draw, DrawFeeds, type Drawn } from './draws.ts';
import { FlatAttention } from './flat/flat-attention.ts';
import { inPlaceStages } from './in-place-stages.ts';
import { packedStages } from './packed-stages.ts';
import { PaddedAttention } from './padded/padded-attention.ts';

/** What is needed after a chunk's last token: a token that the model chooses, its logits, or nothing. */
export type Wanted = Draw | 'logits' | null;

interface StepOutput {
  rows: LogitRows;
  /** For each chunk the token that was chosen, the index of its row of logits, or null. */
  outcomes: (Drawn | number | null)[];
}

const none = new Float32Array(0);
const noRows: LogitRows = { logits: none, largest: none, likelihoods: none };

interface DecoderParts {
  runtime: Runtime;
  architecture: Architecture;
  stages: DecodingStages;
  tables: readonly (Pick<EmbeddingTable, 'distance'> & { rows: Float32Array })[];
  /** Null if the graphs output logits only. */
  draws: DrawFeeds | null;
  openAttention: () => CachedAttention;
}

/**
 * Runs tokens through one set of weights, with its own key-value cache: graphs of ONNX Runtime, between which the keys and
 * values of the new tokens are stored.
 *
 * On the CPU a token's logits have the same bits in any batch, and however its sequence was cut into chunks: a row of a
 * product depends on no other row (see `PackedProducts`), nor does a token's attention. A single row rounds differently, so
 * there are always two.
 */
export class Decoder {
  readonly #parts: DecoderParts;
  readonly #attention: CachedAttention;
  /** The outputs of the last run. */
  #rows: LogitRows | undefined;
  /** The states that the last stage gets, used again by the next run. */
  #picked = none;

  private constructor(parts: DecoderParts) {
    this.#parts = parts;
    this.#attention = parts.openAttention();
  }

  /** `adapter`: null for weights that never have one. `attention`: only on the CPU; the default is what sampling has. */
  static async create(
    runtime: Runtime,
    base: BaseWeights,
    adapter: DecodedAdapter | null,
    attention: AttentionKind = attentionKind(base.architecture),
  ): Promise<Decoder> {
    const { architecture } = base;
    const isPacked = runtime.device === 'cpu';
    const stages = isPacked
      ? await packedStages(runtime, base, adapter, attention)
      : await inPlaceStages(runtime, base, adapter);
    const openAttention = () =>
      isPacked && attention === 'flat'
        ? new FlatAttention(runtime, architecture)
        : new PaddedAttention(runtime, architecture, kernelsOf(base));
    const draws = choosesTokens({ device: runtime.device, attention })
      ? new DrawFeeds(runtime, architecture.vocabularySize)
      : null;
    const tables = embeddingTables(architecture).map(({ name, distance }) => ({
      distance,
      rows: weightOf(base, name),
    }));
    return new Decoder({ runtime, architecture, stages, tables, draws, openAttention });
  }

  /** A decoder of these weights with its own cache. Closing either closes both. They must not run at once. */
  twin(): Decoder {
    return new Decoder(this.#parts);
  }

  get cache(): SlotCache {
    return this.#attention.cache;
  }

  /** Elements that a run needs for each token: of attention, the hidden layer, or the parts of a convolution. */
  get elementsPerToken(): number {
    const { mlpWidth, width, convolutions } = this.#parts.architecture;
    return Math.max(this.#attention.elementsPerToken, mlpWidth, convolutions ? 3 * width : 0);
  }

  async close(): Promise<void> {
    await this.#parts.stages.release();
    this.#attention.release();
  }

  /**
   * Runs one chunk for each slot from `firstSlot`; the cache must be large enough. Returns a row of logits after the last
   * token of each chunk that is not empty, or with `everyToken` after every token. There may be further rows. The next run
   * frees the rows.
   */
  async run(firstSlot: number, chunks: readonly Chunk[], { everyToken = false } = {}): Promise<LogitRows> {
    const ranges = rangesOf(chunks);
    const picked = twoRows(
      ranges
        .filter(({ start, end }) => start < end)
        .flatMap((range) => (everyToken ? tokensOf(range) : lastOf(range))),
    );
    const draws = this.#parts.draws?.feeds(picked.map(() => null));
    return this.#keep(await this.#run(firstSlot, ranges, picked, draws));
  }

  /** Runs chunks as `run` does, and returns only what is wanted. A model that chooses no tokens gives all logits. */
  async step(firstSlot: number, chunks: readonly Chunk[], wanted: readonly Wanted[]): Promise<StepOutput> {
    const { draws: feeds } = this.#parts;
    if (!feeds) {
      let row = 0;
      const outcomes = chunks.map(({ start, end }) => (start < end ? row++ : null));
      return { rows: await this.run(firstSlot, chunks), outcomes };
    }
    const ranges = rangesOf(chunks);
    const draws = twoRows(wanted.flatMap((one) => (one === null ? [] : one === 'logits' ? [null] : [one])));
    const picked = twoRows(ranges.filter((_, row) => wanted[row] !== null).map(lastOf));
    const outputs = await this.#run(firstSlot, ranges, picked, feeds.feeds(draws));
    const drawn = draws.length > 0 ? feeds.read(draws, outputs) : [];
    let [pickedRow, wholeRow] = [0, 0];
    const outcomes = wanted.map((one) => (one === null ? null : (drawn[pickedRow++] ?? wholeRow++)));
    return { rows: this.#keep(outputs), outcomes };
  }

  #keep(outputs: InferenceSession.OnnxValueMapType): LogitRows {
    this.#rows = outputs.logits ? logitRowsOf(outputs) : undefined;
    return this.#rows ?? noRows;
  }

  /** The outputs of the last stage, for the flat tokens `picked`. Without any it is not run: it stores no keys. */
  async #run(
    firstSlot: number,
    ranges: readonly TokenRange[],
    picked: readonly number[],
    end: Feeds = {},
  ): Promise<InferenceSession.OnnxValueMapType> {
    freeAll(Object.values(this.#rows ?? {}));
    const { runtime, architecture, stages } = this.#parts;
    const [first, ...layers] = stages.stages as [DecodingStage, ...DecodingStage[]];
    const tokens = Math.max(
      2,
      sumOf(ranges, ({ start, end }) => end - start),
    );
    const mix = this.#attention.begin(firstSlot, ranges, tokens);
    const positions = architecture.positions === 'learned' ? null : positionsOf(runtime, ranges, tokens);
    const placed = ({ takesPositions }: DecodingStage): Feeds =>
      positions && takesPositions ? { positions } : {};
    let state = runtime.float(this.#firstStates(ranges, tokens), [tokens, architecture.width]);
    let outputs = await first.session.run({ ...first.weights, ...placed(first), state_in: state });
    for (const [layer, stage] of layers.entries()) {
      const packed = outputs.packed as Tensor;
      const isLast = layer + 1 === layers.length;
      const mixed = mix(layer, packed.data as Float32Array, isLast ? picked : null);
      const feeds: Feeds = { ...stage.weights, ...placed(stage), ...mixed };
      const states = state.data as Float32Array;
      if (!isLast) outputs = await stage.session.run({ ...feeds, state_in: state });
      else if (picked.length === 0) outputs = {};
      else outputs = await stage.session.run({ ...feeds, ...end, state_in: this.#rowsOf(states, picked) });
      freeAll([packed.data as Float32Array, states]);
      state = outputs.state as Tensor;
    }
    return outputs;
  }

  #rowsOf(states: Float32Array, picked: readonly number[]): Tensor {
    const { runtime, architecture } = this.#parts;
    const { width } = architecture;
    this.#picked = atLeast(this.#picked, picked.length * width);
    const rows = this.#picked.subarray(0, picked.length * width);
    for (const [row, token] of picked.entries())
      rows.set(states.subarray(token * width, (token + 1) * width), row * width);
    return runtime.float(rows, [picked.length, width]);
  }

  #firstStates(ranges: readonly TokenRange[], tokens: number): Float32Array {
    const { architecture, tables } = this.#parts;
    const rows = new Int32Array(tokens * tables.length);
    let at = 0;
    for (const { tokens: ids, start, end } of ranges)
      for (let position = start; position < end; position++)
        // Before the sequence there is token 0.
        for (const { distance } of tables)
          rows[at++] = distance === null ? position : (ids[position - distance] ?? 0);
    return addUpRows(
      architecture,
      tables.map((table) => table.rows),
      rows,
    );
  }
}

/** The chunks in a flat list of tokens. */
function rangesOf(chunks: readonly Chunk[]): TokenRange[] {
  let offset = 0;
  return chunks.map((chunk) => {
    const range = { ...chunk, offset };
    offset += chunk.end - chunk.start;
    return range;
  });
}

const tokensOf = ({ start, end, offset }: TokenRange): number[] =>
  Array.from({ length: end - start }, (_, index) => offset + index);

const lastOf = ({ start, end, offset }: TokenRange): number => offset + end - start - 1;

function positionsOf(runtime: Runtime, ranges: readonly TokenRange[], tokens: number): Tensor {
  const positions = new Int32Array(tokens);
  for (const { start, end, offset } of ranges)
    for (let position = start; position < end; position++) positions[offset + position - start] = position;
  return runtime.integer(positions, [tokens, 1]);
}

/** The rows, or the only one twice. */
const twoRows = <Row>(rows: Row[]): Row[] => (rows.length === 1 ? [...rows, ...rows] : rows);
