import { randomUUID } from 'node:crypto';
import { setInterval } from 'node:timers';
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../engine.ts';
import { TinkerError } from './connection.ts';
import type { TinkerApi } from './tinker-api.ts';

export interface SessionOptions {
  api: TinkerApi;
  /** The base model's name on the server. */
  serverModel: string;
  /** Rank of all adapters. */
  rank: number;
}

/** How often the server hears that this engine is there. Without that it drops all adapters after five minutes. */
const heartbeatMs = 10_000;

/** How often, and how long, a place for an adapter is waited for: until the server drops those of a program that died. */
const roomPauseMs = 1000;
const roomMs = 7 * 60_000;

/** This engine's session on the server, which has its adapters as long as it hears of the engine. */
export class Session {
  readonly #options: SessionOptions;
  #session: Promise<string> | undefined;
  #hasEnded = false;
  /** Adapters that were created. */
  #created = 0;
  readonly #heartbeat: NodeJS.Timeout;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#heartbeat = setInterval(() => void this.#beat(), heartbeatMs);
    this.#heartbeat.unref();
  }

  end(): void {
    clearInterval(this.#heartbeat);
    this.#hasEnded = true;
  }

  /** Creates an adapter with fresh weights and returns its name. Waits for a place on the server. */
  async createModel(): Promise<string> {
    const { api, serverModel, rank } = this.#options;
    const started = performance.now();
    for (let isFirst = true; ; isFirst = false)
      try {
        this.#session ??= this.#openSession();
        const body = {
          session_id: await this.#session,
          model_seq_id: this.#created++,
          base_model: serverModel,
          lora_config: { rank, seed: 0 },
        };
        const begun = await api.post('create_model', body, { repeat: 'never' });
        const created = { ...begun, ...(await api.result(begun)) };
        return String(created.model_id);
      } catch (error) {
        if (this.#hasEnded || !(error instanceof TinkerError)) throw error;
        if (isFull(error)) {
          if (performance.now() - started > roomMs) throw this.#tooFew(error);
          await sleep(roomPauseMs);
          continue;
        }
        // The session is lost after a restart of the server.
        this.#session = undefined;
        if (!(error.status === 404 && isFirst)) throw error;
      }
  }

  #tooFew(cause: TinkerError): EngineError {
    return new EngineError(
      'engine_refused',
      `the training server has had no place for an adapter for ${roomMs / 60_000} minutes: ${cause.message}. SkyRL's max_lora_adapters must be at least one more than --tinker-adapters`,
      { cause },
    );
  }

  async #openSession(): Promise<string> {
    const body = { tags: ['martingale', randomUUID()], sdk_version: 'martingale' };
    const { session_id: session } = await this.#options.api.post('create_session', body, {
      repeat: 'harmless',
    });
    // A session that never had a heartbeat is never dropped.
    void this.#beat();
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

/** Whether the server has as many adapters as it may. */
const isFull = ({ message }: TinkerError): boolean => /maximum number of lora adapters/i.test(message);
