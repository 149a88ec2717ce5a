import { setTimeout as sleep } from 'node:timers/promises';
import { Deadline, untilAborted } from '../../util/deadline.ts';
import { EngineError } from '../engine.ts';
import { TinkerError } from './connection.ts';
import { type CreateOptions, defaultLongestWaitMs, type SessionOptions, TinkerSession } from './session.ts';

/** A LoRA adapter on the server. */
export interface Adapter {
  readonly id: string;
  /** Number of its next request, from 1. The hosted service takes the requests of an adapter in this order. */
  sequence: number;
  /** Name of its session for sampling, once it has one: from then on its weights never change. */
  sampler: Promise<string> | null;
  /** Its files for sampling on the server. */
  files: string[];
}

interface Held {
  adapter: Promise<Adapter>;
  users: number;
}

/** How long `end` waits for the server to hear of it. */
const endMs = 2000;

/**
 * The adapters of this engine on the server. Weights are only ever sampled through an adapter that loaded them from
 * their checkpoint and is not trained: the server would answer a request for older weights of an adapter in training
 * with its newest, or roll the training back, without an error.
 */
export class Adapters {
  readonly #options: SessionOptions;
  /** Adapters with the weights of checkpoints: one place is for the one in training. */
  readonly #capacity: number;
  /** By checkpoint, the least recently used first; null for the base model. */
  readonly #held = new Map<string | null, Held>();
  /** All adapters on the server, also in training. */
  readonly #open = new Set<Adapter>();
  /** Closings in progress. */
  readonly #closing = new Set<Promise<void>>();
  /** Requests that wait for an adapter without users. */
  #waiting: (() => void)[] = [];
  readonly #session: TinkerSession;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#capacity = options.places - 1;
    this.#session = new TinkerSession(options);
  }

  /**
   * Works with an adapter that has the weights of `checkpoint`, a path on the server; null: the weights of the base
   * model. When the server has lost the adapter, it gets the weights again, once.
   */
  async withWeights<Result>(
    checkpoint: string | null,
    work: (adapter: Adapter) => Promise<Result>,
    signal?: AbortSignal,
  ): Promise<Result> {
    for (let isFirst = true; ; isFirst = false) {
      const held = await this.#hold(checkpoint, signal);
      try {
        return await work(await untilAborted(held.adapter, signal));
      } catch (error) {
        const isLost = error instanceof TinkerError && error.code === 'engine_refused';
        if (isLost) this.#forget(checkpoint, held);
        if (!isLost || !isFirst) throw error;
      } finally {
        held.users--;
        this.#waiting.splice(0).forEach((wake) => void wake());
      }
    }
  }

  /**
   * Opens an adapter with the weights of a checkpoint, or fresh ones for null, and with its optimizer if asked. When the
   * signal aborts, an adapter that the server is creating is closed once it is there.
   */
  async open(
    checkpoint: string | null,
    { optimizer, ...options }: CreateOptions & { optimizer: boolean },
  ): Promise<Adapter> {
    const { api } = this.#options;
    const { signal } = options;
    signal?.throwIfAborted();
    const creating = this.#create(options);
    const adapter = await untilAborted(creating, signal).catch((error: unknown) => {
      if (signal?.aborted) this.#keepUntilEnd(creating.then((late) => this.close(late)));
      throw error;
    });
    if (checkpoint !== null)
      try {
        const body = { model_id: adapter.id, path: checkpoint, optimizer, seq_id: adapter.sequence++ };
        await api.operation('load_weights', body, { repeat: 'never', signal });
      } catch (error) {
        void this.close(adapter);
        if (error instanceof TinkerError && error.code === 'engine_refused' && !isLoss(error))
          throw new EngineError(
            'checkpoint_missing',
            `The training server ${api.url} no longer has ${checkpoint}: ${error.message}`,
            { cause: error },
          );
        throw error;
      }
    return adapter;
  }

  /** The session that samples from an adapter, which must not be trained any more. */
  samplerOf(adapter: Adapter): Promise<string> {
    adapter.sampler ??= this.#openSampler(adapter);
    return adapter.sampler;
  }

  /** Frees an adapter's place on the server, and its files for sampling. */
  async close(adapter: Adapter): Promise<void> {
    if (!this.#open.delete(adapter)) return;
    await this.#keepUntilEnd(this.#unload(adapter));
  }

  async #create(options: CreateOptions): Promise<Adapter> {
    const id = await this.#session.createModel(options);
    const adapter: Adapter = { id, sequence: 1, sampler: null, files: [] };
    this.#open.add(adapter);
    return adapter;
  }

  /** Lets `end` wait for a closing. A failure is no error: the server drops what it does not hear of. */
  async #keepUntilEnd(work: Promise<void>): Promise<void> {
    const closing = work.catch(() => undefined);
    this.#closing.add(closing);
    await closing;
    this.#closing.delete(closing);
  }

  async #unload(adapter: Adapter): Promise<void> {
    const { api } = this.#options;
    const { id, files } = adapter;
    try {
      await api.operation('unload_model', { model_id: id }, { repeat: 'harmless' });
      for (const file of files) await api.remove(`training_runs/${id}/checkpoints/sampler_weights/${file}`);
    } catch {
      // A server that is away or was restarted has lost the adapter; a silent one drops it after five minutes.
    }
  }

  /**
   * Keeps an adapter that was trained for sampling from its checkpoint, which has the same weights, if a place is free:
   * then they need not be loaded. It must not be trained any more.
   */
  keep(checkpoint: string, adapter: Adapter): void {
    if (!this.#held.has(checkpoint) && this.#makeRoom())
      this.#held.set(checkpoint, { adapter: Promise.resolve(adapter), users: 0 });
    else void this.close(adapter);
  }

  /** Forgets the adapter of a checkpoint that is going to be deleted. */
  drop(checkpoint: string | null): void {
    const held = this.#held.get(checkpoint);
    if (held?.users === 0) this.#forget(checkpoint, held);
  }

  /** Frees all places on the server, as far as it answers soon. */
  async end(): Promise<void> {
    this.#session.end();
    this.#held.clear();
    for (const adapter of this.#open) void this.close(adapter);
    const closed = Promise.all(this.#closing);
    const stop = new AbortController();
    await Promise.race([closed, sleep(endMs, undefined, { signal: stop.signal }).catch(() => undefined)]);
    stop.abort();
  }

  #openSampler(adapter: Adapter): Promise<string> {
    const sequence = adapter.sequence++;
    // SkyRL names the file by these numbers.
    adapter.files.push(`ss1_seq${sequence}`);
    const body = { model_id: adapter.id, sampling_session_seq_id: 1, seq_id: sequence };
    const session = this.#options.api
      .operation('save_weights_for_sampler', body, { repeat: 'never' })
      .then(({ sampling_session_id: name }) => {
        if (typeof name === 'string') return name;
        throw new EngineError('engine_unsupported', 'The training server opened no session for sampling.');
      });
    session.catch(() => {
      adapter.sampler = null;
    });
    return session;
  }

  async #hold(checkpoint: string | null, signal: AbortSignal | undefined): Promise<Held> {
    signal?.throwIfAborted();
    return this.#tryHold(checkpoint) ?? (await this.#waitToHold(checkpoint, signal));
  }

  #tryHold(checkpoint: string | null): Held | undefined {
    const held = this.#held.get(checkpoint) ?? this.#add(checkpoint);
    if (!held) return undefined;
    held.users++;
    // The newest goes last.
    this.#held.delete(checkpoint);
    this.#held.set(checkpoint, held);
    return held;
  }

  async #waitToHold(checkpoint: string | null, signal: AbortSignal | undefined): Promise<Held> {
    const { longestWaitMs = defaultLongestWaitMs, onWait } = this.#options;
    const all = `all ${this.#capacity} adapters for sampling are used by requests of other checkpoints; raise --tinker-adapters (\`adapters\`)`;
    const deadline = new Deadline(
      longestWaitMs,
      signal,
      () => new EngineError('engine_full', `A request has waited ${longestWaitMs / 60_000} minutes: ${all}.`),
    );
    if (this.#waiting.length === 0) onWait(`an adapter for sampling: ${all}`);
    try {
      for (;;) {
        await untilAborted(new Promise<void>((resolve) => this.#waiting.push(resolve)), deadline.signal);
        const held = this.#tryHold(checkpoint);
        if (held) return held;
      }
    } finally {
      deadline.clear();
    }
  }

  /** Opens an adapter in a free place; undefined if all are in use. */
  #add(checkpoint: string | null): Held | undefined {
    if (!this.#makeRoom()) return undefined;
    const adapter = this.open(checkpoint, { optimizer: false });
    const held = { adapter, users: 0 };
    adapter.catch(() => this.#forget(checkpoint, held));
    return held;
  }

  /** Whether a place is free, or became so. */
  #makeRoom(): boolean {
    if (this.#held.size < this.#capacity) return true;
    const idle = [...this.#held].find(([, { users }]) => users === 0);
    if (idle) this.#forget(...idle);
    return idle !== undefined;
  }

  #forget(checkpoint: string | null, held: Held): void {
    if (this.#held.get(checkpoint) === held) this.#held.delete(checkpoint);
    void held.adapter.then((adapter) => this.close(adapter)).catch(() => undefined);
  }
}

/** Whether the server has lost an adapter, by a restart. It says so with these words, not with a status. */
export const isLoss = ({ message }: TinkerError): boolean =>
  /not loaded|(session|future) not found/i.test(message);
