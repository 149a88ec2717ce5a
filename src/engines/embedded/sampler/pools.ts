import type { Weights } from '../../engine.ts';
import { findBaseModel, loadWeights } from '../base-models.ts';
import type { Runtime } from '../runtime.ts';
import { unreadableCheckpoint } from '../weights/checkpoint-files.ts';
import type { WorkerSettings } from '../worker-messages.ts';
import { Decoder } from './decoder.ts';
import { Pool } from './pool.ts';

/** Weights kept ready to sample from, beside those in use. */
const idlePoolsKept = 3;

/** A pool for each set of weights that is in use or was not long ago. */
export class Pools {
  readonly #runtime: Runtime;
  readonly #settings: WorkerSettings;
  /** In order of last use. A pool is a promise while its weights are being loaded. */
  readonly #pools = new Map<string, Promise<Pool>>();
  readonly #ready = new Map<string, Pool>();

  constructor(runtime: Runtime, settings: WorkerSettings) {
    this.#runtime = runtime;
    this.#settings = settings;
  }

  /** The pools whose weights are there. */
  get ready(): Iterable<Pool> {
    return this.#ready.values();
  }

  /**
   * Hands over the pool of a set of weights, which are loaded where they are not there. Only while `use` runs is it
   * certain that an idle pool is not let go.
   */
  async open(weights: Weights, use: (pool: Pool) => void): Promise<void> {
    const key = poolKey(weights);
    for (;;) {
      const pool = await this.#find(key, weights);
      // One that was closed while its turn was awaited is opened anew.
      if (this.#ready.get(key) === pool) return use(pool);
    }
  }

  /** Forgets weights that nothing samples from any more. */
  async drop(weights: Weights): Promise<void> {
    const key = poolKey(weights);
    const pool = this.#ready.get(key);
    if (pool?.idle) await this.#close(key, pool);
  }

  /** Forgets a pool that is of no use any more; its weights are loaded again when they are next asked for. */
  discard(pool: Pool): void {
    for (const [key, own] of this.#ready) if (own === pool) this.#close(key, pool).catch(() => undefined);
  }

  async #find(key: string, weights: Weights): Promise<Pool> {
    const known = this.#pools.get(key);
    if (known) {
      this.#pools.delete(key);
      this.#pools.set(key, known);
      return known;
    }
    const loading = this.#load(weights);
    this.#pools.set(key, loading);
    try {
      this.#ready.set(key, await loading);
    } catch (error) {
      this.#pools.delete(key);
      throw error;
    }
    await this.#evict();
    return loading;
  }

  async #load(weights: Weights): Promise<Pool> {
    const { architecture } = findBaseModel(weights.baseModel);
    const values = await loadWeights(weights).catch((error: unknown) => {
      throw unreadableCheckpoint(weights.folder, error);
    });
    return new Pool(await Decoder.create(this.#runtime, architecture, values), architecture, this.#settings);
  }

  async #evict(): Promise<void> {
    const idle = [...this.#pools.keys()].flatMap((key) => {
      const pool = this.#ready.get(key);
      return pool?.idle ? [{ key, pool }] : [];
    });
    for (const { key, pool } of idle.slice(0, Math.max(0, idle.length - idlePoolsKept)))
      await this.#close(key, pool);
  }

  async #close(key: string, pool: Pool): Promise<void> {
    this.#pools.delete(key);
    this.#ready.delete(key);
    await pool.close();
  }
}

function poolKey({ baseModel, folder }: Weights): string {
  return `${baseModel}\n${folder ?? ''}`;
}
