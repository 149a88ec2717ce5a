import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { createServer as createProbe } from 'node:net';
import { httpUrl, startListening, stopListening } from '../../util/http-server.ts';
import type { ServiceError } from '../errors.ts';
import { Answering, type AnsweringOptions } from './answering.ts';

/**
 * Queue length for connections to be accepted, as far as the system allows. With Node's default of 511,
 * some of thousands that arrive at once are dropped.
 */
const backlog = 16_384;

/**
 * Number of sockets that listen on the port. Node accepts one connection per socket and tick: under load,
 * with ticks of 20 ms, one socket would accept 50 connections a second and drop many of thousands that
 * arrive at once.
 */
const listeners = process.platform === 'linux' ? 16 : 1;

/**
 * How long an idle connection stays open. Common clients drop idle connections after 5 s (httpx) to 90 s
 * (Go). If the service closed one first, a request already on its way would fail.
 */
const keepAliveTimeoutMs = 120_000;

interface ListenOptions extends AnsweringOptions {
  host: string;
  port: number;
  /** How long a client may take to send a request, in milliseconds. */
  receiveTimeoutMs: number;
}

/** Servers with the same routes on one address. */
export class Listening {
  readonly #servers: readonly Server[];
  readonly #host: string;
  readonly #port: number;
  readonly #answering: Answering;

  private constructor(
    servers: readonly Server[],
    { host, port, answering }: { host: string; port: number; answering: Answering },
  ) {
    this.#servers = servers;
    this.#host = host;
    this.#port = port;
    this.#answering = answering;
  }

  /** Starts listening. Rejects with the system's errors. */
  static async start({ host, port, receiveTimeoutMs, ...options }: ListenOptions): Promise<Listening> {
    // Node measures from the first to the last byte of a request; the answer has no limit.
    const serverOptions = {
      requestTimeout: receiveTimeoutMs,
      keepAliveTimeout: keepAliveTimeoutMs,
      connectionsCheckingInterval: Math.min(30_000, receiveTimeoutMs),
    };
    const answering = new Answering(options);
    const listener = answering.listener(host);
    const servers = Array.from({ length: listeners }, () =>
      // Without this, Node drops the answer of a client that closes its sending side and waits.
      Object.assign(createServer(serverOptions, listener), { httpAllowHalfOpen: true }),
    );
    // Other programs of the same user could also share the port, so check first that nobody uses it.
    const free = listeners === 1 ? port : await findFree(host, port);
    try {
      let chosen = free;
      const shared = { host, backlog, ...(listeners > 1 && { reusePort: true }) };
      for (const server of servers) chosen = await startListening(server, { port: chosen, ...shared });
      return new Listening(servers, { host, port: chosen, answering });
    } catch (error) {
      answering.closed();
      for (const server of servers) server.close();
      throw error;
    }
  }

  /** The service's base address. */
  get url(): string {
    return httpUrl(this.#host, this.#port);
  }

  /** Calls `look` with each server. */
  watch(look: (server: Server) => void): void {
    for (const server of this.#servers) look(server);
  }

  /**
   * Closes connections as they become idle. Shortly before the deadline, requests in progress get
   * `reason`; at the deadline all connections are closed.
   */
  async stop({ timeoutMs, reason }: { timeoutMs: number; reason: ServiceError }): Promise<void> {
    const stopped = this.#servers.map((server) => stopListening(server, timeoutMs));
    this.#answering.close({ withinMs: timeoutMs, reason });
    await Promise.all(stopped);
    this.#answering.closed();
  }
}

/** Returns the port (a free one for 0) if nobody listens on it. Rejects with the system's errors. */
async function findFree(host: string, port: number): Promise<number> {
  const probe = createProbe();
  const found = await startListening(probe, { port, host });
  probe.close();
  await once(probe, 'close');
  return found;
}
