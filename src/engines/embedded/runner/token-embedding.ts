import { EngineError } from '../../engine.ts';
import { embeddingTables } from '../checkpoint/tensors.ts';
import { freeAll } from '../runtime.ts';
import type { Architecture } from '../weights/architecture.ts';
import { type GradientSum, type Trained, trainedShapes } from './adapter-vector.ts';
import { placeRow } from './batch-feeds.ts';
import { type BaseWeights, weightOf } from './layer-feeds.ts';
import type { PaddedTokens } from './shared-prefixes.ts';

interface Table {
  /** The checkpoint's own. */
  own: Float32Array;
  /** Offset in the vector; null if it is not trained. */
  offset: number | null;
  distance: number | null;
}

/** Looks up the first states of tokens, and adds their gradients to the rows that they came from. */
export class TokenEmbedding {
  readonly #architecture: Architecture;
  readonly #tables: readonly Table[];

  constructor(base: BaseWeights, trained: Trained) {
    const { architecture } = base;
    this.#architecture = architecture;
    const shapes = trainedShapes(architecture, trained);
    this.#tables = embeddingTables(architecture).map(({ name, distance }) => ({
      own: weightOf(base, name),
      offset: shapes.find((shape) => shape.name === name)?.offset ?? null,
      distance,
    }));
  }

  /** [rows * time, width]; 0 where a row is padded. `vector`: what is trained. */
  states(batch: PaddedTokens, vector: Float32Array | null): Float32Array {
    const tables = this.#tables.map(({ own, offset }) =>
      vector && offset !== null ? vector.subarray(offset, offset + own.length) : own,
    );
    return addUpRows(this.#architecture, tables, this.#rowsOf(batch));
  }

  /**
   * Adds the gradient of the states [rows * time, width], which is no longer used. The rows are added one after another,
   * because many share a token.
   */
  addGradient(batch: PaddedTokens, gradient: Float32Array, sum: GradientSum): void {
    if (this.#tables.every(({ offset }) => offset === null)) {
      freeAll([gradient]);
      return;
    }
    const { width, embeddingScale } = this.#architecture;
    scaled(gradient, embeddingScale);
    const rows = this.#rowsOf(batch);
    const count = this.#tables.length;
    const places = new Int32Array(2 * rows.length);
    let filled = 0;
    for (const [at, row] of rows.entries()) {
      const { offset } = this.#tables[at % count] as Table;
      if (row < 0 || offset === null) continue;
      places[filled++] = Math.floor(at / count);
      places[filled++] = offset + row * width;
    }
    sum.addRows(gradient, width, places.subarray(0, filled));
  }

  /** For each state its row of each table, [rows * time, tables]; -1 for padding. */
  #rowsOf({ sequences, time, branches = [] }: PaddedTokens): Int32Array {
    const { vocabularySize } = this.#architecture;
    const count = this.#tables.length;
    const rows = new Int32Array(sequences.length * time * count).fill(-1);
    const positions = new Int32Array(time);
    for (const [row, tokens] of sequences.entries()) {
      placeRow(positions, branches[row]);
      for (let at = 0; at < tokens.length; at++) {
        const token = tokens[at] as number;
        if (!(token < vocabularySize))
          throw new EngineError(
            'bad_datum',
            `Token ${at} of a sequence is ${token}, outside the vocabulary of ${vocabularySize} tokens.`,
          );
        const position = positions[at] as number;
        for (let index = 0; index < count; index++) {
          const { distance } = this.#tables[index] as Table;
          let found = position;
          if (distance !== null) {
            // The tokens before a branch are the shared ones, and token 0 precedes a sequence.
            const isOwn = positions[at - distance] === position - distance;
            found = tokens[isOwn ? at - distance : position - distance] ?? 0;
          }
          rows[(row * time + at) * count + index] = found;
        }
      }
    }
    return rows;
  }
}

/**
 * The first states of tokens, [tokens, width]: for each the sum of its rows [tokens, tables] of the tables of
 * `embeddingTables`. A row of -1 adds nothing.
 */
export function addUpRows(
  { width, embeddingScale }: Architecture,
  tables: readonly Float32Array[],
  rows: Int32Array,
): Float32Array {
  const count = tables.length;
  const states = new Float32Array((rows.length / count) * width);
  for (const [index, table] of tables.entries())
    for (let at = index, to = 0; at < rows.length; at += count, to += width) {
      const row = rows[at] as number;
      if (row < 0) continue;
      const from = row * width;
      if (index === 0) states.set(table.subarray(from, from + width), to);
      else
        for (let i = 0; i < width; i++)
          states[to + i] = (states[to + i] as number) + (table[from + i] as number);
    }
  return scaled(states, embeddingScale);
}

/** Multiplies in place. */
function scaled(values: Float32Array, factor: number): Float32Array {
  if (factor !== 1) for (let at = 0; at < values.length; at++) values[at] = (values[at] as number) * factor;
  return values;
}
