import { setImmediate as nextTurn } from 'node:timers/promises';
import type { DataFiles } from './files.ts';
import type { Store } from './store.ts';

/** How long training data is kept after its last use, and an idempotency key of no model after its first; milliseconds. */
export const keptMs = 30 * 24 * 3_600_000;

export interface Unused {
  store: Store;
  files: DataFiles;
  /** The time, in milliseconds since 1970. Default: the clock's. */
  now?: number;
}

/** Removes what has not been used for so long, a little in each turn of the event loop. */
export async function removeUnused({ store, files, now = Date.now() }: Unused): Promise<void> {
  const before = now - keptMs;
  while (await store.forgetIdempotencyKeys(before)) await nextTurn();
  for (let hashes = await store.unusedUploads(before); hashes.length > 0; ) {
    for (const sha256 of hashes)
      await files.alone(sha256, async () => {
        if (await store.removeUnusedUpload(sha256, before)) await files.removeUpload(sha256);
      });
    hashes = await store.unusedUploads(before);
  }
}
