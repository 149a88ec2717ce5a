/** Processes items two at a time, and stops after the first failure. */
export async function byTwo<Item>(
  items: readonly Item[],
  work: (item: Item, index: number) => Promise<void>,
): Promise<void> {
  const left = [...items.entries()].reverse();
  const worker = async () => {
    for (let next = left.pop(); next; next = left.pop()) {
      const [index, item] = next;
      await work(item, index).catch((error: unknown) => {
        left.length = 0;
        throw error;
      });
    }
  };
  // Both must end before their folders are deleted.
  for (const ended of await Promise.allSettled([worker(), worker()]))
    if (ended.status === 'rejected') throw ended.reason;
}
