import { f32, f32x4, i32, i32x4 } from '../../wasm/instructions.ts';
import { Exponential, eachVector, largestOf, sumOf } from '../../wasm/vectors.ts';
import type { FunctionWriter, Local, Locals } from '../../wasm/wasm-module.ts';
import { blockLength } from '../prefix-cache.ts';

/** Bytes of a number. */
const size = 4;

/**
 * Positions of a block. The keys of a block are [head, head width, position], so that a vector has those of four
 * positions, and its values [head, position, head width].
 */
export const blockPositions = blockLength;

/** What the cache of a sequence and a layer is: the keys of all blocks, and then their values. */
export interface AttentionShape {
  heads: number;
  headWidth: number;
  /** Positions that there is room for. */
  contextLength: number;
}

/** Bytes of the keys of a block, or of its values. */
export const blockBytes = ({ heads, headWidth }: AttentionShape) => heads * headWidth * blockPositions * size;

/** Bytes of all keys, or of all values. */
export const cacheBytes = (shape: AttentionShape) =>
  Math.ceil(shape.contextLength / blockPositions) * blockBytes(shape);

const blockOf = (position: Local) => i32.shiftRight(position.get, Math.log2(blockPositions));
const withinBlock = (position: Local) => i32.and(position.get, i32.constant(blockPositions - 1));

/** Writes a function that puts a token's key and value into the cache; `packed` has its query, key and value. */
export function writeStore(
  code: FunctionWriter,
  shape: AttentionShape,
  { packed, cache, position }: Locals<'packed' | 'cache' | 'position'>,
): void {
  const { heads, headWidth } = shape;
  const width = heads * headWidth;
  const block = i32.add(cache.get, i32.multiply(blockOf(position), i32.constant(blockBytes(shape))));
  const key = code.local('i32', block);
  const place = code.local('i32', withinBlock(position));
  const value = code.local('i32', i32.add(key.get, i32.multiply(place.get, i32.constant(headWidth * size))));
  for (let head = 0; head < heads; head++)
    for (let at = 0; at < headWidth; at += 4) {
      const from = (2 * width + head * headWidth + at) * size;
      const to = cacheBytes(shape) + (head * blockPositions * headWidth + at) * size;
      code.do(f32x4.store(value.get, to, f32x4.load(packed.get, from)));
    }
  code.do(key.set(i32.add(key.get, i32.multiply(place.get, i32.constant(size)))));
  const end = code.local('i32', i32.add(packed.get, i32.constant(width * size)));
  const numbers = code.local('v128');
  eachVector(code, packed, end.get, () => {
    code.do(numbers.set(f32x4.load(packed.get, width * size)));
    for (let lane = 0; lane < 4; lane++)
      code.do(f32.store(key.get, lane * blockPositions * size, f32x4.lane(numbers.get, lane)));
    code.do(code.advance(key, 4 * blockPositions * size));
  });
}

/**
 * Writes a function for the attention of one token of a sequence to itself and the tokens before it: of `query` [head,
 * head width], the token's `position`, memory for `scores` [head, blocks * block positions], which begins at a multiple of
 * 64 bytes, and `output` [head, head width]. Sums go along the positions, so the result depends on nothing else. The cache
 * is read in order, because it comes from memory.
 */
export function writeAttention(
  code: FunctionWriter,
  shape: AttentionShape,
  { query, cache, position, scores, output }: Locals<'query' | 'cache' | 'position' | 'scores' | 'output'>,
): void {
  const { heads, headWidth, contextLength } = shape;
  const headBytes = headWidth * size;
  const scoreBytes = blockPositions * size;
  /** Bytes of a head's scores. */
  const rowBytes = Math.ceil(contextLength / blockPositions) * scoreBytes;
  const used = i32.multiply(i32.add(blockOf(position), i32.constant(1)), i32.constant(scoreBytes));
  const usedBytes = code.local('i32', used);
  const [at, from, to, row] = code.locals(4, 'i32') as [Local, Local, Local, Local];
  const [score, within, end] = code.locals(3, 'i32') as [Local, Local, Local];
  const sums = code.locals(Math.max(blockPositions, headWidth) / 4, 'v128');
  const [factor, most, total] = code.locals(3, 'v128') as [Local, Local, Local];
  const exponential = new Exponential(code);
  /** Repeats `body` for each head, with `score` at that head's row. */
  const eachHead = (body: () => void) => {
    code.do(score.set(row.get), to.set(i32.add(row.get, i32.constant(heads * rowBytes))));
    code.repeat(() => {
      body();
      code.do(code.advance(score, rowBytes));
      return i32.differs(score.get, to.get);
    });
  };

  // The products of queries and keys.
  code.do(row.set(scores.get), at.set(cache.get), end.set(i32.add(scores.get, usedBytes.get)));
  code.repeat(() => {
    code.do(from.set(query.get));
    eachHead(() => {
      const columns = sums.slice(0, blockPositions / 4);
      code.do(...columns.map((sum) => sum.set(f32x4.zero)));
      for (let index = 0; index < headWidth; index++) {
        code.do(factor.set(f32x4.loadAll(from.get, index * size)));
        for (const [column, sum] of columns.entries()) {
          const key = f32x4.load(at.get, (index * blockPositions + column * 4) * size);
          code.do(sum.set(code.multiplyAdd(factor.get, key, sum.get)));
        }
      }
      for (const [column, sum] of columns.entries())
        code.do(f32x4.store(score.get, column * 4 * size, sum.get));
      code.do(code.advance(from, headBytes), code.advance(at, headBytes * blockPositions));
    });
    code.do(code.advance(row, scoreBytes));
    return i32.differs(row.get, end.get);
  });

  // Their softmax. What follows the token in its block has no keys, or those of another sequence.
  code.do(row.set(scores.get));
  eachHead(() => {
    code.do(end.set(i32.add(score.get, usedBytes.get)));
    code.do(at.set(i32.subtract(end.get, i32.constant(scoreBytes))));
    for (let lane = 0; lane < blockPositions; lane += 4) {
      const lanes = i32x4.constant(lane, lane + 1, lane + 2, lane + 3);
      const isLater = i32x4.isGreater(lanes, i32x4.all(withinBlock(position)));
      const nothing = f32x4.constant(Number.NEGATIVE_INFINITY);
      const value = f32x4.choose(nothing, f32x4.load(at.get, lane * size), isLater);
      code.do(f32x4.store(at.get, lane * size, value));
    }
    code.do(at.set(score.get), most.set(f32x4.load(score.get)), total.set(f32x4.zero));
    eachVector(code, at, end.get, () => code.do(most.set(f32x4.largest(most.get, f32x4.load(at.get)))));
    code.do(most.set(f32x4.all(largestOf(most))), at.set(score.get));
    const scale = f32x4.constant(1 / Math.sqrt(headWidth));
    eachVector(code, at, end.get, () => {
      const relative = f32x4.multiply(f32x4.subtract(f32x4.load(at.get), most.get), scale);
      code.do(f32x4.store(at.get, 0, exponential.of(relative)));
      code.do(total.set(f32x4.add(total.get, f32x4.load(at.get))));
    });
    code.do(total.set(f32x4.all(f32.divide(f32.constant(1), sumOf(total)))), at.set(score.get));
    eachVector(code, at, end.get, () =>
      code.do(f32x4.store(at.get, 0, f32x4.multiply(f32x4.load(at.get), total.get))),
    );
  });

  // The mixed values, up to the token's own: those after it may be NaN.
  for (let at = 0; at < heads * headWidth; at += 4) code.do(f32x4.store(output.get, at * size, f32x4.zero));
  code.do(row.set(scores.get), at.set(i32.add(cache.get, i32.constant(cacheBytes(shape)))));
  const left = code.local('i32', i32.add(position.get, i32.constant(1)));
  const count = code.local('i32');
  code.repeat(() => {
    code.do(count.set(i32.smallest(left.get, i32.constant(blockPositions))), from.set(output.get));
    eachHead(() => {
      const columns = sums.slice(0, headWidth / 4);
      for (const [column, sum] of columns.entries())
        code.do(sum.set(f32x4.load(from.get, column * 4 * size)));
      code.do(within.set(score.get));
      code.do(end.set(i32.add(score.get, i32.multiply(count.get, i32.constant(size)))));
      code.repeat(() => {
        code.do(factor.set(f32x4.loadAll(within.get)));
        for (const [column, sum] of columns.entries())
          code.do(sum.set(code.multiplyAdd(factor.get, f32x4.load(at.get, column * 4 * size), sum.get)));
        code.do(code.advance(at, headBytes), code.advance(within, size));
        return i32.differs(within.get, end.get);
      });
      const rest = i32.subtract(i32.constant(blockPositions), count.get);
      code.do(at.set(i32.add(at.get, i32.multiply(rest, i32.constant(headBytes)))));
      for (const [column, sum] of columns.entries())
        code.do(f32x4.store(from.get, column * 4 * size, sum.get));
      code.do(code.advance(from, headBytes));
    });
    code.do(code.advance(row, scoreBytes), left.set(i32.subtract(left.get, count.get)));
    return left.get;
  });
}
