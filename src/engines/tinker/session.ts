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
  /** Adapters that the server must have places for. */
  places: number;
  /** Called when something begins to wait, with what it waits for. */
  onWait: (reason: string) => void;
  /** Longest wait for a place for an adapter, in milliseconds. Default 420,000. */
  longestWaitMs?: number;
}

export interface CreateOptions {
  /** Default: the session's. */
  onWait?: ((reason: string) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** Interval of heartbeats. Without them the server drops all adapters after five minutes. */
const heartbeatMs = 10_000;

/** Poll interval and deadline for a free adapter slot. The server frees the slots of a dead program after some minutes. */
const pauseMs = 1000;
export const defaultLongestWaitMs = 7 * 60_000;

/** This engine's session on the server, which keeps its adapters as long as the engine sends heartbeats. */
export class TinkerSession {
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

  /**
   * Creates an adapter with fresh weights and returns its name. Waits for a place on the server.
   * @throws EngineError (`bad_option`) if the server can never have as many; `engine_full` after the longest wait
   */
  async createModel({ onWait = this.#options.onWait, signal }: CreateOptions): Promise<string> {
    const { longestWaitMs = defaultLongestWaitMs } = this.#options;
    const started = performance.now();
    let isWaiting = false;
    for (let isFirst = true; ; isFirst = false)
      try {
        return await this.#create();
      } catch (error) {
        if (this.#hasEnded || !(error instanceof TinkerError)) throw error;
        if (isFull(error)) {
          this.#checkPlaces(error);
          if (performance.now() - started > longestWaitMs) throw this.#full(error, longestWaitMs);
          if (!isWaiting)
            onWait(
              `a place for an adapter on the training server, which a service that was killed, or another one, still has (${error.message})`,
            );
          isWaiting = true;
          await sleep(pauseMs, undefined, { signal });
          continue;
        }
        // The session is lost after a restart of the server.
        this.#session = undefined;
        if (!(error.status === 404 && isFirst)) throw error;
      }
  }

  async #create(): Promise<string> {
    const { api, serverModel, rank } = this.#options;
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
  }

  /** Refuses a server that says that it has fewer places than this engine needs. */
  #checkPlaces(error: TinkerError): void {
    const { api, places: needed } = this.#options;
    const places = placesTold(error);
    if (places === undefined || places >= needed) return;
    const fewer = places < 2 ? '' : `pass --tinker-adapters ${places} (\`adapters\`), or `;
    throw new EngineError(
      'bad_option',
      `The training server ${api.url} has places for ${places} adapters, and this service needs ${needed}: ${fewer}start SkyRL with max_lora_adapters ${needed + 1}.`,
      { cause: error },
    );
  }

  #full(cause: TinkerError, waitedMs: number): EngineError {
    return new EngineError(
      'engine_full',
      `The training server has had no place for an adapter for ${waitedMs / 60_000} minutes: ${cause.message} End the other program that has adapters there, or give SkyRL more max_lora_adapters.`,
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

/** How many adapters it may have, if it says so. SkyRL's own number counts the base model. */
function placesTold({ message }: TinkerError): number | undefined {
  const [, number] = /maximum number of lora adapters \((\d+)\)/i.exec(message) ?? [];
  return number === undefined ? undefined : Number(number) - 1;
}
