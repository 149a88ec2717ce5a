import { type Code, f32, f32x4, i32, i32x4 } from '../../wasm/instructions.ts';
import { Exponential, eachVector, largestOf, sumOf } from '../../wasm/vectors.ts';
import { floatBytes } from '../../wasm/wasm-memory.ts';
import type { FunctionWriter, Local, Locals } from '../../wasm/wasm-module.ts';
import { blockLength } from '../prefix-cache.ts';

/**
 * Positions of a block. Its keys are [head, head width, position], so that one vector instruction reads four positions;
 * its values are [head, position, head width].
 */
export const blockPositions = blockLength;

/** What the cache of a sequence and a layer is: the keys of all blocks, and then their values. */
export interface AttentionShape {
  /** Heads of queries. `heads / keyValueHeads` neighbouring heads share keys and values. */
  heads: number;
  keyValueHeads: number;
  headWidth: number;
  /** Positions that there is room for. */
  contextLength: number;
}

/** Bytes of the keys of a block, or of its values. */
export const blockBytes = ({ keyValueHeads, headWidth }: AttentionShape) =>
  keyValueHeads * headWidth * blockPositions * floatBytes;

/** Bytes of all keys, or of all values. */
export const cacheBytes = (shape: AttentionShape) =>
  Math.ceil(shape.contextLength / blockPositions) * blockBytes(shape);

/** Heads that share a key are computed in pairs, because each key is loaded once for a pair. */
const mostTogether = 2;

/** Vectors of values that are summed at once: as many as the registers of a processor hold. */
const mostSums = 8;

const blockOf = (position: Local) => i32.shiftRight(position.get, Math.log2(blockPositions));
const withinBlock = (position: Local) => i32.and(position.get, i32.constant(blockPositions - 1));

/** Writes a function that puts a token's key and value into the cache; `packed` has its query, key and value. */
export function writeStore(
  code: FunctionWriter,
  shape: AttentionShape,
  { packed, cache, position }: Locals<'packed' | 'cache' | 'position'>,
): void {
  const { heads, keyValueHeads, headWidth } = shape;
  const queryBytes = heads * headWidth * floatBytes;
  const keyBytes = keyValueHeads * headWidth * floatBytes;
  const block = i32.add(cache.get, i32.multiply(blockOf(position), i32.constant(blockBytes(shape))));
  const key = code.local('i32', block);
  const place = code.local('i32', withinBlock(position));
  const value = code.local(
    'i32',
    i32.add(key.get, i32.multiply(place.get, i32.constant(headWidth * floatBytes))),
  );
  for (let head = 0; head < keyValueHeads; head++)
    for (let at = 0; at < headWidth; at += 4) {
      const from = queryBytes + keyBytes + (head * headWidth + at) * floatBytes;
      const to = cacheBytes(shape) + (head * blockPositions * headWidth + at) * floatBytes;
      code.do(f32x4.store(value.get, to, f32x4.load(packed.get, from)));
    }
  code.do(key.set(i32.add(key.get, i32.multiply(place.get, i32.constant(floatBytes)))));
  const end = code.local('i32', i32.add(packed.get, i32.constant(keyBytes)));
  const numbers = code.local('v128');
  eachVector(code, packed, end.get, () => {
    code.do(numbers.set(f32x4.load(packed.get, queryBytes)));
    for (let lane = 0; lane < 4; lane++)
      code.do(f32.store(key.get, lane * blockPositions * floatBytes, f32x4.lane(numbers.get, lane)));
    code.do(code.advance(key, 4 * blockPositions * floatBytes));
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
  const { heads, keyValueHeads, headWidth, contextLength } = shape;
  const sharers = heads / keyValueHeads;
  const headBytes = headWidth * floatBytes;
  const scoreBytes = blockPositions * floatBytes;
  /** Bytes of a head's scores. */
  const rowBytes = Math.ceil(contextLength / blockPositions) * scoreBytes;
  const used = i32.multiply(i32.add(blockOf(position), i32.constant(1)), i32.constant(scoreBytes));
  const usedBytes = code.local('i32', used);
  const [at, from, to, row] = code.locals(4, 'i32') as [Local, Local, Local, Local];
  const [score, within, end, place] = code.locals(4, 'i32') as [Local, Local, Local, Local];
  const sums = code.locals(mostSums, 'v128');
  const factors = code.locals(mostTogether, 'v128');
  const [shared, most, total] = code.locals(3, 'v128') as [Local, Local, Local];
  const exponential = new Exponential(code);
  /** Repeats `body` for every `step` heads, with `score` at the row of the first of them. */
  const eachHead = (step: number, body: () => void) => {
    code.do(score.set(row.get), to.set(i32.add(row.get, i32.constant(heads * rowBytes))));
    code.repeat(() => {
      body();
      code.do(code.advance(score, step * rowBytes));
      return i32.differs(score.get, to.get);
    });
  };
  /** Sums up `vectors` products for each of the heads `group`, of its factor and of a vector that they share. */
  const addProducts = (group: readonly number[], vectors: number, vectorAt: (index: number) => Code) => {
    for (let index = 0; index < vectors; index++) {
      code.do(shared.set(vectorAt(index)));
      for (const member of group.keys()) {
        const sum = sums[member * vectors + index] as Local;
        code.do(sum.set(code.multiplyAdd((factors[member] as Local).get, shared.get, sum.get)));
      }
    }
  };
  const groups = groupsOf(sharers);

  // The products of queries and keys.
  code.do(row.set(scores.get), at.set(cache.get), end.set(i32.add(scores.get, usedBytes.get)));
  code.repeat(() => {
    code.do(from.set(query.get));
    eachHead(sharers, () => {
      const vectors = blockPositions / 4;
      for (const group of groups) {
        const used = sums.slice(0, group.length * vectors);
        code.do(...used.map((sum) => sum.set(f32x4.zero)));
        for (let index = 0; index < headWidth; index++) {
          for (const [member, head] of group.entries())
            code.do(
              (factors[member] as Local).set(f32x4.loadAll(from.get, head * headBytes + index * floatBytes)),
            );
          addProducts(group, vectors, (column) =>
            f32x4.load(at.get, (index * blockPositions + column * 4) * floatBytes),
          );
        }
        for (const [member, head] of group.entries())
          for (let column = 0; column < vectors; column++)
            code.do(
              f32x4.store(
                score.get,
                head * rowBytes + column * 4 * floatBytes,
                (used[member * vectors + column] as Local).get,
              ),
            );
      }
      code.do(code.advance(from, sharers * headBytes), code.advance(at, headBytes * blockPositions));
    });
    code.do(code.advance(row, scoreBytes));
    return i32.differs(row.get, end.get);
  });

  // Their softmax. What follows the token in its block has no keys, or another sequence's.
  code.do(row.set(scores.get));
  eachHead(1, () => {
    code.do(end.set(i32.add(score.get, usedBytes.get)));
    code.do(at.set(i32.subtract(end.get, i32.constant(scoreBytes))));
    for (let lane = 0; lane < blockPositions; lane += 4) {
      const lanes = i32x4.constant(lane, lane + 1, lane + 2, lane + 3);
      const isLater = i32x4.isGreater(lanes, i32x4.all(withinBlock(position)));
      const nothing = f32x4.constant(Number.NEGATIVE_INFINITY);
      const value = f32x4.choose(nothing, f32x4.load(at.get, lane * floatBytes), isLater);
      code.do(f32x4.store(at.get, lane * floatBytes, value));
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
  for (let at = 0; at < heads * headWidth; at += 4)
    code.do(f32x4.store(output.get, at * floatBytes, f32x4.zero));
  code.do(row.set(scores.get), at.set(i32.add(cache.get, i32.constant(cacheBytes(shape)))));
  const left = code.local('i32', i32.add(position.get, i32.constant(1)));
  const count = code.local('i32');
  code.repeat(() => {
    code.do(count.set(i32.smallest(left.get, i32.constant(blockPositions))), from.set(output.get));
    eachHead(sharers, () => {
      code.do(end.set(i32.add(score.get, i32.multiply(count.get, i32.constant(floatBytes)))));
      for (const group of groups) {
        const vectors = Math.min(headWidth / 4, Math.floor(mostSums / group.length));
        for (let first = 0; first < headWidth / 4; first += vectors) {
          const width = Math.min(vectors, headWidth / 4 - first);
          const sumAt = (member: number, column: number) => sums[member * width + column] as Local;
          const offsetOf = (head: number, column: number) =>
            head * headBytes + (first + column) * 4 * floatBytes;
          for (const [member, head] of group.entries())
            for (let column = 0; column < width; column++)
              code.do(sumAt(member, column).set(f32x4.load(from.get, offsetOf(head, column))));
          code.do(within.set(score.get), place.set(at.get));
          code.repeat(() => {
            for (const [member, head] of group.entries())
              code.do((factors[member] as Local).set(f32x4.loadAll(within.get, head * rowBytes)));
            addProducts(group, width, (column) => f32x4.load(place.get, (first + column) * 4 * floatBytes));
            code.do(code.advance(place, headBytes), code.advance(within, floatBytes));
            return i32.differs(within.get, end.get);
          });
          for (const [member, head] of group.entries())
            for (let column = 0; column < width; column++)
              code.do(f32x4.store(from.get, offsetOf(head, column), sumAt(member, column).get));
        }
      }
      code.do(code.advance(at, headBytes * blockPositions), code.advance(from, sharers * headBytes));
    });
    code.do(code.advance(row, scoreBytes), left.set(i32.subtract(left.get, count.get)));
    return left.get;
  });
}

/** The heads that share a key, in the groups that are computed together. */
function groupsOf(sharers: number): number[][] {
  const heads = [...Array(sharers).keys()];
  return Array.from({ length: Math.ceil(sharers / mostTogether) }, (_, index) =>
    heads.slice(index * mostTogether, (index + 1) * mostTogether),
  );
}
