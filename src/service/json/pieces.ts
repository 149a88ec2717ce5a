import { deserialize, serialize } from 'node:v8';
import { TimeSlices } from '../../util/time-slices.ts';
import { isLarger } from '../errors.ts';

/** A value in pieces, each of which takes a fraction of a millisecond to read. */
export type Pieces = Uint8Array<ArrayBuffer>[];

interface Piece {
  /** Where it belongs. Elements of a list come in order. */
  path: (string | number)[];
  /** The value that is there, or elements for the list, or members for the object, that is there. */
  content: { value: unknown } | { items: unknown[] };
}

const maxWeight = 4000;
/** This many characters of a text weigh as much as one value. */
const charactersOfValue = 64;
/** Elements or members that are sent together if they are small. */
const runLength = 1000;

const isHeavy = (value: unknown) =>
  isLarger(value, maxWeight, ({ length }) => 1 + length / charactersOfValue);

/** Cuts a value of JSON, or what a schema made of it, for another thread, which reads it in time slices. */
export function toPieces(root: unknown): Pieces {
  const pieces: Pieces = [];
  const add = (piece: Piece) => {
    pieces.push(Uint8Array.from(serialize(piece)));
  };
  const cut = (value: unknown, path: Piece['path']): void => {
    if (typeof value !== 'object' || value === null || !isHeavy(value)) {
      add({ path, content: { value } });
      return;
    }
    add({ path, content: { value: Array.isArray(value) ? [] : {} } });
    const all: unknown[] = Array.isArray(value) ? value : Object.entries(value);
    for (let at = 0; at < all.length; at += runLength) {
      const items = all.slice(at, at + runLength);
      if (!isHeavy(items)) add({ path, content: { items } });
      else if (Array.isArray(value))
        for (const [index, item] of items.entries()) cut(item, [...path, at + index]);
      else
        for (const [key, member] of Object.entries(value).slice(at, at + runLength))
          cut(member, [...path, key]);
    }
  };
  cut(root, []);
  return pieces;
}

/** The value that was cut, put together in time slices. */
export async function fromPieces(pieces: Pieces): Promise<unknown> {
  const slices = new TimeSlices();
  const root: { value?: unknown } = {};
  for (const piece of pieces) {
    if (slices.over) await slices.pause();
    const { path, content }: Piece = deserialize(piece);
    const whole = ['value', ...path];
    const isOne = 'value' in content;
    const parent = (isOne ? whole.slice(0, -1) : whole).reduce<unknown>(
      (inner, part) => Reflect.get(Object(inner), part),
      root,
    );
    const items = isOne
      ? [Array.isArray(parent) ? content.value : [whole.at(-1), content.value]]
      : content.items;
    if (Array.isArray(parent)) for (const item of items) parent.push(item);
    // A name such as `__proto__` must be a member like any other.
    else
      for (const [name, value] of items as [string, unknown][])
        Object.defineProperty(parent, name, { value, writable: true, enumerable: true, configurable: true });
  }
  return root.value;
}
