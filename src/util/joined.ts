import { sumOf } from './sums.ts';
/** The bytes of all pieces, one after another, in a buffer of their own, which can go to another thread. */
export const joined = (pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> =>
  filled(new Uint8Array(lengthOf(pieces)), pieces);

/** As `joined`, for float32. */
export const joinedFloats = (pieces: readonly Float32Array[]): Float32Array<ArrayBuffer> =>
  filled(new Float32Array(lengthOf(pieces)), pieces);

const lengthOf = (pieces: readonly { length: number }[]): number => sumOf(pieces, ({ length }) => length);

function filled<Whole extends Uint8Array | Float32Array>(
  whole: Whole,
  pieces: readonly ArrayLike<number>[],
): Whole {
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
