import type { Weights } from '../../engine.ts';
import { EngineError } from '../../engine.ts';
import type { BaseModels, EmbeddedBaseModel } from '../base-models.ts';
import { embeddingTables } from '../checkpoint/tensors.ts';
import { freeAll, type Runtime } from '../runtime.ts';
import type { WorkerSettings } from '../threads/worker-messages.ts';
import { unreadableCheckpoint } from '../weights/checkpoint-files.ts';
import { attentionKind } from './cached-attention.ts';
import { Decoder } from './decoder.ts';
import { takePacked } from './packed-stages.ts';
import { Pool } from './pool.ts';
import { PrefixMemory } from './prefix-cache.ts';

/** Sets of weights kept loaded, besides those in use: of all, and of those that are large. */
const idlePoolsKept = { all: 3, large: 1 };

/** Parameters of weights that are large: 64 MB. */
const largeParameters = 16_000_000;

interface Entry {
  loading: Promise<Pool>;
  /** Null while the weights are being loaded. */
  pool: Pool | null;
}

/** A pool for each set of weights that is in use or was used recently. */
export class Pools {
  readonly #runtime: Runtime;
  readonly #models: BaseModels;
  readonly #settings: { largestBatch: number; prefixes: PrefixMemory };
  /** By last use, the least recent first. */
  readonly #entries = new Map<string, Entry>();
  /** Keys of dropped weights that are still in use or being loaded. */
  readonly #dropped = new Set<string>();
  /** Releases the packed weights of each checkpoint that was opened. */
  readonly #packed = new Map<EmbeddedBaseModel, () => Promise<void>>();
  /** The pools that have weights of a checkpoint for themselves. */
  readonly #large = new WeakSet<Pool>();
  #closed = false;

  constructor(
    runtime: Runtime,
    models: BaseModels,
    { largestBatch, prefixCacheBytes }: Pick<WorkerSettings, 'largestBatch' | 'prefixCacheBytes'>,
  ) {
    this.#runtime = runtime;
    this.#models = models;
    this.#settings = { largestBatch, prefixes: new PrefixMemory(prefixCacheBytes) };
  }

  /** Number of sets of weights, loaded or being loaded. */
  get count(): number {
    return this.#entries.size;
  }

  /** The pools whose weights are loaded. */
  get ready(): Pool[] {
    return [...this.#entries.values()].flatMap(({ pool }) => pool ?? []);
  }

  /**
   * Loads the weights if necessary and calls `use` with their pool. Unless `use` adds work to it, the pool may be
   * released right after.
   */
  async open(weights: Weights, use: (pool: Pool) => void): Promise<void> {
    const key = poolKey(weights);
    for (;;) {
      const entry = this.#entryOf(key, weights);
      const pool = await entry.loading;
      // A pool that was released while this call waited is loaded again.
      if (this.#entries.get(key) !== entry) continue;
      try {
        return use(pool);
      } finally {
        this.sweep();
        this.#evict();
      }
    }
  }

  /** Releases weights as soon as nothing samples from them: see `sweep`. */
  drop(weights: Weights): void {
    const key = poolKey(weights);
    if (this.#entries.has(key)) this.#dropped.add(key);
    this.sweep();
  }

  /** Releases dropped weights that have become idle. Call it when an answer has ended. */
  sweep(): void {
    for (const key of this.#dropped) {
      const entry = this.#entries.get(key);
      if (entry?.pool?.idle) this.#release(key, entry.pool);
      else if (!entry) this.#dropped.delete(key);
    }
  }

  /** Releases a pool that has failed. The next request loads its weights again. */
  discard(pool: Pool): void {
    for (const [key, entry] of this.#entries) if (entry.pool === pool) this.#release(key, pool);
  }

  /** Releases all pools, also those being loaded. Nothing may be running. */
  async close(): Promise<void> {
    this.#closed = true;
    const entries = [...this.#entries.values()];
    this.#entries.clear();
    for (const { loading } of entries) {
      const pool = await loading.catch(() => null);
      await pool?.close();
    }
    for (const release of this.#packed.values()) await release();
  }

  /** The entry of the weights, which becomes the most recent one. */
  #entryOf(key: string, weights: Weights): Entry {
    if (this.#closed) throw new EngineError('engine_closed', 'The engine has been closed.');
    const entry = this.#entries.get(key) ?? this.#startLoading(key, weights);
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry;
  }

  #startLoading(key: string, weights: Weights): Entry {
    const entry: Entry = { loading: this.#load(weights), pool: null };
    entry.loading.then(
      (pool) => {
        entry.pool = pool;
      },
      () => this.#entries.delete(key),
    );
    return entry;
  }

  async #load(weights: Weights): Promise<Pool> {
    const model = this.#models.find(weights.baseModel);
    const pool = new Pool(await this.#openDecoder(weights), model.architecture, this.#settings);
    if (model.trained === 'all' && !this.#models.isBare(weights) && model.parameters > largeParameters)
      this.#large.add(pool);
    return pool;
  }

  async #openDecoder(weights: Weights): Promise<Decoder> {
    const model = this.#models.find(weights.baseModel);
    const load = () =>
      this.#models.loadVector(weights).catch((error: unknown) => {
        throw unreadableCheckpoint(weights.folder, error);
      });
    const { trained } = model;
    const isBare = this.#models.isBare(weights);
    if (trained === 'all' && !isBare) return this.#openTrained(model, await load());
    const adapter = trained === 'all' ? null : { lora: trained, vector: isBare ? null : await load() };
    // Packed weights stay, because the next checkpoint of a policy needs them again.
    if (this.#runtime.device === 'cpu' && !this.#packed.has(model)) {
      const form = { attention: attentionKind(model.architecture), hasAdapters: adapter !== null };
      const { sessions, release } = takePacked(this.#runtime, model, form);
      this.#packed.set(model, release);
      sessions.catch(() => this.#packed.delete(model));
    }
    return Decoder.create(this.#runtime, model, adapter);
  }

  /** A decoder for weights that are all trained: the packed copy is its own, and goes with it. */
  async #openTrained(model: EmbeddedBaseModel, vector: Float32Array): Promise<Decoder> {
    const { architecture } = model;
    const tables = new Set(embeddingTables(architecture).map(({ name }) => name));
    const views = this.#models.trainedShapes(model.id).map(({ name, dimensions, offset, size }) => ({
      name,
      isPacked: dimensions.length === 2 && !tables.has(name),
      values: vector.subarray(offset, offset + size),
    }));
    const weights = new Map(
      views.map(({ name, isPacked, values }) => [name, isPacked ? values : values.slice()]),
    );
    const decoder = await Decoder.create(this.#runtime, { architecture, weights }, null);
    for (const { name, isPacked } of views) if (isPacked) weights.delete(name);
    freeAll([vector]);
    return decoder;
  }

  #evict(): void {
    const idle = [...this.#entries].flatMap(([key, { pool }]) => (pool?.idle ? [{ key, pool }] : []));
    const large = idle.filter(({ pool }) => this.#large.has(pool));
    for (const [pools, kept] of [
      [idle, idlePoolsKept.all],
      [large, idlePoolsKept.large],
    ] as const)
      for (const { key, pool } of pools.slice(0, Math.max(0, pools.length - kept)))
        if (this.#entries.has(key)) this.#release(key, pool);
  }

  /** Does not wait, and ignores errors: if the runtime keeps the memory, there is no remedy. */
  #release(key: string, pool: Pool): void {
    this.#entries.delete(key);
    this.#dropped.delete(key);
    pool.close().catch(() => undefined);
  }
}

function poolKey({ baseModel, folder }: Weights): string {
  return `${baseModel}\n${folder ?? ''}`;
}
