import { setTimeout as sleep } from 'node:timers/promises';
import type { Change } from './api.ts';
import { findRuns } from './find-runs.ts';
import { runSignature } from './run-signature.ts';

/** How often the files of the runs are looked at while somebody follows them. */
const pollMs = 700;

type Listener = (change: Change) => void;

/** Tells listeners which runs changed, came or went, within about a second. Without a listener it does nothing. */
export class Changes {
  readonly #folders: readonly string[];
  readonly #listeners = new Set<Listener>();
  #stop: AbortController | undefined;

  constructor(folders: readonly string[]) {
    this.#folders = folders;
  }

  /** Returns the function that ends it. */
  follow(listener: Listener): () => void {
    this.#listeners.add(listener);
    if (!this.#stop) {
      this.#stop = new AbortController();
      void this.#poll(this.#stop.signal);
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#stop?.abort();
      this.#stop = undefined;
    };
  }

  async #poll(signal: AbortSignal): Promise<void> {
    let before: Map<string, string> | undefined;
    while (!signal.aborted) {
      // A folder that cannot be read for a moment is looked at again.
      const now = await this.#signatures().catch(() => before);
      if (signal.aborted) return;
      if (before && now)
        for (const run of new Set([...before.keys(), ...now.keys()]))
          if (before.get(run) !== now.get(run)) for (const listener of this.#listeners) listener({ run });
      before = now;
      await sleep(pollMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  async #signatures(): Promise<Map<string, string>> {
    const runs = await findRuns(this.#folders);
    return new Map(
      await Promise.all(runs.map(async ({ id, folder }) => [id, await runSignature(folder)] as const)),
    );
  }
}
