import type { GenerateRequest, Weights } from '../../engine.ts';
import { EngineError } from '../../engine-error.ts';
import { findBaseModel, loadWeights } from '../base-models.ts';
import type { ConversationCodec } from '../conversation-codec.ts';
import type { CompiledConstraint } from '../grammar/index.ts';
import { Random } from '../random.ts';
import type { Runtime } from '../runtime.ts';
import { toFailure } from '../worker-failure.ts';
import type { SamplerReport, WorkerSettings } from '../worker-messages.ts';
import { Decoder } from './decoder.ts';
import { Pool } from './pool.ts';
import { Sequence } from './sequence.ts';

/** Weights kept ready to sample from, beside those in use. */
const idlePoolsKept = 3;

interface Listener {
  id: number;
  stream: boolean;
  pool: string;
}

/** Samples replies: a pool for each set of weights, each stepping in turn. */
export class Sampler {
  readonly #runtime: Runtime;
  readonly #settings: WorkerSettings;
  readonly #codec: ConversationCodec;
  /** In order of last use. A pool is a promise while its weights are being loaded. */
  readonly #pools = new Map<string, Promise<Pool>>();
  readonly #ready = new Map<string, Pool>();
  readonly #listeners = new Map<Sequence, Listener>();
  readonly #byId = new Map<number, Sequence>();
  /** Requests whose weights or grammar are not there yet; false once cancelled. */
  readonly #preparing = new Map<number, boolean>();

  constructor(runtime: Runtime, settings: WorkerSettings, codec: ConversationCodec) {
    this.#runtime = runtime;
    this.#settings = settings;
    this.#codec = codec;
  }

  get busy(): boolean {
    return [...this.#ready.values()].some((pool) => !pool.idle);
  }

  /** Queues a request; it joins the next step once its weights and its grammar are there. */
  async add(id: number, request: Omit<GenerateRequest, 'signal'>, stream: boolean): Promise<void> {
    this.#preparing.set(id, true);
    let constraint: CompiledConstraint | null;
    let pool: Pool;
    try {
      constraint = request.constraint && (await this.#codec.compile(request.constraint));
      // One that was closed while its turn was awaited is opened anew.
      do pool = await this.#pool(request.weights);
      while (this.#ready.get(poolKey(request.weights)) !== pool);
      if (!this.#preparing.get(id)) return;
    } finally {
      this.#preparing.delete(id);
    }
    const sequence = new Sequence(request, {
      tokenizer: this.#codec.tokenizer,
      endToken: this.#codec.format.endToken,
      unconstrained: this.#codec.unconstrained,
      constraint: constraint ? constraint.start() : null,
      random: new Random(request.seed ?? Math.floor(Math.random() * Number.MAX_SAFE_INTEGER)),
    });
    this.#listeners.set(sequence, { id, stream, pool: poolKey(request.weights) });
    this.#byId.set(id, sequence);
    pool.add(sequence);
  }

  cancel(id: number): void {
    const sequence = this.#byId.get(id);
    if (sequence) sequence.cancel();
    else if (this.#preparing.has(id)) this.#preparing.set(id, false);
  }

  /** One step of every pool with work. */
  async step(): Promise<SamplerReport> {
    const report: SamplerReport = { deltas: [], finished: [], failed: [] };
    for (const [key, pool] of this.#ready) {
      if (pool.idle) continue;
      try {
        for (const sequence of await pool.step()) this.#tell(sequence, report);
      } catch (error) {
        this.#fail(key, error, report);
      }
    }
    return report;
  }

  /** Forgets weights that nothing samples from any more. */
  async drop(weights: Weights): Promise<void> {
    const key = poolKey(weights);
    const pool = this.#ready.get(key);
    if (!pool?.idle) return;
    this.#pools.delete(key);
    this.#ready.delete(key);
    await pool.close();
  }

  #tell(sequence: Sequence, report: SamplerReport): void {
    const listener = this.#listeners.get(sequence);
    if (!listener) return;
    const { id, stream } = listener;
    if (sequence.ended) {
      this.#forget(sequence, id);
      if (sequence.cancelled) return;
      if (stream) report.deltas.push({ id, delta: sequence.takeDelta() });
      report.finished.push({ id, generation: sequence.finish() });
    } else if (stream) {
      const delta = sequence.takeDelta();
      if (delta.tokens.length > 0) report.deltas.push({ id, delta });
    }
  }

  /** A pool whose step threw is closed; its sequences fail, and the next request loads the weights again. */
  #fail(key: string, error: unknown, report: SamplerReport): void {
    const pool = this.#ready.get(key);
    this.#pools.delete(key);
    this.#ready.delete(key);
    pool?.close().catch(() => undefined);
    for (const [sequence, { id, pool: own }] of [...this.#listeners]) {
      if (own !== key) continue;
      this.#forget(sequence, id);
      report.failed.push({ id, failure: toFailure(error) });
    }
  }

  #forget(sequence: Sequence, id: number): void {
    this.#listeners.delete(sequence);
    this.#byId.delete(id);
    sequence.dispose();
  }

  async #pool(weights: Weights): Promise<Pool> {
    const key = poolKey(weights);
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
      if (EngineError.isInstance(error)) throw error;
      throw new EngineError(
        'checkpoint_missing',
        `the weights in ${weights.folder} cannot be read: ${error}`,
      );
    });
    return new Pool(await Decoder.create(this.#runtime, architecture, values), architecture, this.#settings);
  }

  async #evict(): Promise<void> {
    const idle = [...this.#pools.keys()].filter((key) => this.#ready.get(key)?.idle);
    for (const key of idle.slice(0, Math.max(0, idle.length - idlePoolsKept))) {
      const pool = this.#ready.get(key);
      this.#pools.delete(key);
      this.#ready.delete(key);
      await pool?.close();
    }
  }
}

function poolKey({ baseModel, folder }: Weights): string {
  return `${baseModel}\n${folder ?? ''}`;
}
