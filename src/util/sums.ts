/** The sum of some numbers, in their order. @param of The number of an item. Default: the item. */
export function sumOf(values: Iterable<number>): number;
export function sumOf<Item>(items: Iterable<Item>, of: (item: Item) => number): number;
export function sumOf<Item>(items: Iterable<Item>, of: (item: Item) => number = Number): number {
  let sum = 0;
  for (const item of items) sum += of(item);
  return sum;
}

/** The mean of some numbers. NaN of none. */
export const meanOf = (values: readonly number[]): number => sumOf(values) / values.length;

/** The mean of some numbers; null of none. */
export const meanOrNull = (values: readonly number[]): number | null =>
  values.length === 0 ? null : meanOf(values);
