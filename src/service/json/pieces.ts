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
  const send = (path: Path, isList: boolean, items: unknown[]) => {
    const piece: Piece = { path, part: isList ? items : Object.fromEntries(items as [string, unknown][]) };
    pieces.push(Uint8Array.from(serialize(piece)));
  };
  /** Sends some elements of a list, from `at` on, or entries of an object: in halves while they are too many. */
  const cut = (path: Path, isList: boolean, items: unknown[], at = 0): void => {
    const half = items.length >> 1;
    if (!isLarger(items, maxWeight, weightOfText)) send(path, isList, items);
    else if (half > 0) {
      cut(path, isList, items.slice(0, half), at);
      cut(path, isList, items.slice(half), at + half);
    } else {
      const [key, value] = isList ? [at, items[0]] : (items[0] as [string, unknown]);
      const isCut = typeof value === 'object' && value !== null;
      const sent = !isCut ? value : Array.isArray(value) ? [] : {};
      send(path, isList, isList ? [sent] : [[key, sent]]);
      if (isCut)
        cut([...path, key], Array.isArray(value), Array.isArray(value) ? value : Object.entries(value));
    }
  };
  cut([], false, [['root', root]]);
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
