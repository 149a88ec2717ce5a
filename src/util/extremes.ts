// A call has room for some 100,000 arguments: of more, a spread into `Math.max` or `push` throws.

/**
 * The largest of some numbers, however many they are. NaN if one of them is.
 * @param least The result is not smaller. Default: minus infinity, which is the result of no numbers.
 */
export function largestOf(values: Iterable<number>, least = Number.NEGATIVE_INFINITY): number {
  let largest = least;
  for (const value of values) largest = Math.max(largest, value);
  return largest;
}

/** The smallest of some numbers. @param most The result is not larger. Default: infinity. */
export function smallestOf(values: Iterable<number>, most = Number.POSITIVE_INFINITY): number {
  let smallest = most;
  for (const value of values) smallest = Math.min(smallest, value);
  return smallest;
}

/** Appends items, however many they are. */
export function append<Item>(list: Item[], items: Iterable<Item>): void {
  for (const item of items) list.push(item);
}
