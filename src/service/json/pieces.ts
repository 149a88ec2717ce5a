import { deserialize, serialize } from 'node:v8';
import { isLarger, weightOfText } from '../../util/json.ts';
import { TimeSlices } from '../../util/time-slices.ts';

/** A value in pieces, each of which takes a fraction of a millisecond to read. */
export type Pieces = Uint8Array<ArrayBuffer>[];

type Path = (string | number)[];

/** Further elements or members of the list or object at a path. */
interface Piece {
  path: Path;
  part: object;
}

const maxWeight = 4000;

/** Cuts a value of JSON, or what a schema made of it, for another thread, which reads it in time slices. */
export function toPieces(root: unknown): Pieces {
  const pieces: Pieces = [];
  const send = (piece: Piece) => {
    pieces.push(Uint8Array.from(serialize(piece)));
  };
  const cut = (path: Path, part: object, offset = 0): void => {
    if (!isLarger(part, maxWeight, weightOfText)) {
      send({ path, part });
      return;
    }
    const isList = Array.isArray(part);
    const all = isList ? part : Object.entries(part);
    const half = all.length >> 1;
    if (half > 0) {
      const partOf = (items: typeof all) => (isList ? items : Object.fromEntries(items));
      cut(path, partOf(all.slice(0, half)), offset);
      cut(path, partOf(all.slice(half)), offset + half);
      return;
    }
    const [key, value] = isList ? [offset, part[0]] : all[0];
    const isCut = typeof value === 'object' && value !== null;
    const first = !isCut ? value : Array.isArray(value) ? [] : {};
    send({ path, part: isList ? [first] : Object.fromEntries([[key, first]]) });
    if (isCut) cut([...path, key], value);
  };
  cut([], { root });
  return pieces;
}

/** The value that was cut, put together in time slices. */
export async function fromPieces(pieces: Pieces): Promise<unknown> {
  const slices = new TimeSlices();
  const whole: { root?: unknown } = {};
  for (const piece of pieces) {
    if (slices.over) await slices.pause();
    const { path, part }: Piece = deserialize(piece);
    const target = path.reduce<unknown>((inner, key) => Reflect.get(Object(inner), key), whole);
    if (Array.isArray(target) && Array.isArray(part)) for (const item of part) target.push(item);
    // A name such as `__proto__` must be a member like any other.
    else
      for (const [name, value] of Object.entries(part))
        Object.defineProperty(target, name, { value, writable: true, enumerable: true, configurable: true });
  }
  return whole.root;
}
