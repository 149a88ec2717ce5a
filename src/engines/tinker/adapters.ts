import { randomUUID } from 'node:crypto';
import { setInterval } from 'node:timers';
import { EngineError } from '../engine.ts';
import { type TinkerApi, TinkerError } from './tinker-api.ts';

/** A LoRA adapter on the server. */
export interface Adapter {
  readonly id: string;
  /** Number of its next pass. */
  sequence: number;
  /** Name of its session for sampling, once it has one: from then on its weights never change. */
  sampler: Promise<string> | null;
}

export interface AdaptersOptions {
  api: TinkerApi;
  /** The base model's name on the server. */
  serverModel: string;
  /** Rank of all adapters. */
  rank: number;
  /** Adapters with the weights of checkpoints that are on the server at once, besides the one in training. */
  capacity: number;
}

interface Held {
  adapter: Promise<Adapter>;
  users: number;
}

/** How often the server hears that this engine is there. Without that it drops all adapters after five minutes. */
const heartbeatMs = 10_000;

/**
 * The adapters of this engine on the server. Weights are only ever sampled through an adapter that loaded them from
 * their checkpoint and is not trained: the server would answer a request for older weights of an adapter in training
 * with its newest, or roll the training back, without an error.
 */
export class Adapters {
  readonly #options: AdaptersOptions;
  /** By checkpoint, the least recently used first; null for the base model. */
  readonly #held = new Map<string | null, Held>();
  /** Requests that wait for an adapter without users. */
  #waiting: (() => void)[] = [];
  #session: Promise<string> | undefined;
  readonly #heartbeat: NodeJS.Timeout;

  constructor(options: AdaptersOptions) {
    this.#options = options;
    this.#heartbeat = setInterval(() => void this.#beat(), heartbeatMs);
    this.#heartbeat.unref();
  }

  /**
   * Works with an adapter that has the weights of a checkpoint, by its path on the server, or those of the base model for
   * null. When the server has lost the adapter, it gets the weights again, once.
   */
  async withWeights<Result>(
    checkpoint: string | null,
    work: (adapter: Adapter) => Promise<Result>,
    signal?: AbortSignal,
  ): Promise<Result> {
    for (let isFirst = true; ; isFirst = false) {
      const held = await this.#hold(checkpoint, signal);
      try {
        return await work(await held.adapter);
      } catch (error) {
        const isLost = error instanceof TinkerError && error.code === 'engine_refused';
        if (isLost || !(await isOpen(held))) this.#forget(checkpoint, held);
        if (!isLost || !isFirst) throw error;
      } finally {
        held.users--;
        this.#waiting.splice(0).forEach((wake) => void wake());
      }
    }
  }

  /** Opens an adapter with the weights of a checkpoint, or fresh ones for null, and with its optimizer if asked. */
  async open(checkpoint: string | null, { optimizer }: { optimizer: boolean }): Promise<Adapter> {
    const { api, serverModel, rank } = this.#options;
    const begun = await this.#createModel(serverModel, rank);
    const adapter: Adapter = { id: String(begun.model_id), sequence: 1, sampler: null };
    if (checkpoint !== null)
      try {
        const body = { model_id: adapter.id, path: checkpoint, optimizer };
        await api.operation('load_weights', body, { repeat: 'never' });
      } catch (error) {
        this.close(adapter);
        if (error instanceof TinkerError && error.code === 'engine_refused' && !isLoss(error))
          throw new EngineError(
            'checkpoint_missing',
            `the training server ${api.url} no longer has ${checkpoint}: ${error.message}`,
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

  /** Frees an adapter's place on the server, and its file for sampling. Does not wait for it. */
  close({ id, sampler }: Adapter): void {
    const { api } = this.#options;
    void api
      .operation('unload_model', { model_id: id }, { repeat: 'harmless' })
      .then(async () => {
        if (sampler !== null)
          await api.remove(`training_runs/${id}/checkpoints/sampler_weights/${samplerFile}`);
      })
      // A server that is away or was restarted has lost the adapter; a silent one drops it after five minutes.
      .catch(() => undefined);
  }

  /** Forgets the adapter of a checkpoint that is going to be deleted. */
  drop(checkpoint: string | null): void {
    const held = this.#held.get(checkpoint);
    if (held?.users === 0) this.#forget(checkpoint, held);
  }

  end(): void {
    clearInterval(this.#heartbeat);
    for (const [checkpoint, held] of this.#held) this.#forget(checkpoint, held);
  }

  async #openSampler({ id }: Adapter): Promise<string> {
    const body = { model_id: id, sampling_session_seq_id: 1, seq_id: 1 };
    const { sampling_session_id: session } = await this.#options.api.operation(
      'save_weights_for_sampler',
      body,
      { repeat: 'never' },
    );
    if (typeof session === 'string') return session;
    throw new EngineError('engine_unsupported', 'the training server opened no session for sampling');
  }

  async #hold(checkpoint: string | null, signal: AbortSignal | undefined): Promise<Held> {
    for (;;) {
      signal?.throwIfAborted();
      const held = this.#held.get(checkpoint) ?? this.#add(checkpoint);
      if (held) {
        held.users++;
        // The newest goes last.
        this.#held.delete(checkpoint);
        this.#held.set(checkpoint, held);
        return held;
      }
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** Opens an adapter in a free place; undefined if all are in use. */
  #add(checkpoint: string | null): Held | undefined {
    if (this.#held.size >= this.#options.capacity) {
      const idle = [...this.#held].find(([, { users }]) => users === 0);
      if (!idle) return undefined;
      this.#forget(...idle);
    }
    const adapter = this.open(checkpoint, { optimizer: false });
    adapter.catch(() => undefined);
    return { adapter, users: 0 };
  }

  #forget(checkpoint: string | null, held: Held): void {
    if (this.#held.get(checkpoint) === held) this.#held.delete(checkpoint);
    void held.adapter.then((adapter) => this.close(adapter)).catch(() => undefined);
  }

  async #createModel(serverModel: string, rank: number): Promise<Record<string, unknown>> {
    const { api } = this.#options;
    for (let isFirst = true; ; isFirst = false)
      try {
        this.#session ??= this.#openSession();
        const lora = { rank, seed: 0 };
        const body = { session_id: await this.#session, base_model: serverModel, lora_config: lora };
        const begun = await api.post('create_model', body, { repeat: 'never' });
        return { ...begun, ...(await api.result(begun)) };
      } catch (error) {
        // The session is lost after a restart of the server.
        this.#session = undefined;
        if (!(error instanceof TinkerError && error.status === 404 && isFirst)) throw error;
      }
  }

  async #openSession(): Promise<string> {
    const body = { tags: ['martingale', randomUUID()], sdk_version: 'martingale' };
    const { session_id: session } = await this.#options.api.post('create_session', body, {
      repeat: 'harmless',
    });
    return String(session);
  }

  async #beat(): Promise<void> {
    const session = this.#session;
    if (!session) return;
    try {
      await this.#options.api.post('session_heartbeat', { session_id: await session }, { repeat: 'never' });
    } catch (error) {
      const isLost = error instanceof TinkerError && error.status === 404;
      if (isLost && this.#session === session) this.#session = undefined;
    }
  }
}

/** Name of an adapter's only file for sampling, by the numbers that `#openSampler` sends. */
const samplerFile = 'ss1_seq1';

/** Whether the server has lost an adapter, by a restart. It says so with these words, not with a status. */
export const isLoss = ({ message }: TinkerError): boolean =>
  /not loaded|(session|future) not found/i.test(message);

const isOpen = (held: Held): Promise<boolean> =>
  held.adapter.then(
    () => true,
    () => false,
  );
