import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { createServer as createProbe } from 'node:net';
import type { ServiceError } from '../errors.ts';
import { Answering, type AnsweringOptions } from './answering.ts';

/**
 * Connections that wait to be accepted, as far as the system lets there be so many. With Node's 511, of thousands that
 * come at once some are cut.
 */
const backlog = 16_384;

/**
 * Sockets that listen on the one port. From each, Node accepts one connection a turn of the event loop: under load,
 * where a turn takes 20 ms, one socket would take in 50 a second, and cut many of thousands that come at once.
 */
const listeners = process.platform === 'linux' ? 16 : 1;

/**
 * How long a connection without a request is kept. Common clients drop an idle connection after 5 s (httpx) to 90 s
 * (Go). If the service closed it first, it could do so while the next request is on its way: that request would fail.
 */
const keepAliveTimeoutMs = 120_000;

export interface ListenOptions extends AnsweringOptions {
  host: string;
  port: number;
  /** How long a client may take to send a request. */
  receiveTimeoutMs: number;
}

/** Servers of the same routes on one address. */
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

  /** Rejects with the system's errors of listening. */
  static async start({ host, port, receiveTimeoutMs, ...options }: ListenOptions): Promise<Listening> {
    // Node counts the time from a request's first byte to its last; the answer may take as long as it does.
    const serverOptions = {
      requestTimeout: receiveTimeoutMs,
      keepAliveTimeout: keepAliveTimeoutMs,
      connectionsCheckingInterval: Math.min(30_000, receiveTimeoutMs),
    };
    const answering = new Answering(options);
    const listener = answering.listener(host);
    const servers = Array.from({ length: listeners }, () =>
      // Of a client that closes its side once it has sent everything, and waits, Node would drop the answer.
      Object.assign(createServer(serverOptions, listener), { httpAllowHalfOpen: true }),
    );
    // Sockets that share a port share it with those of other programs of the same user that want to: not by accident.
    const free = listeners === 1 ? port : await findFree(host, port);
    try {
      let chosen = free;
      for (const server of servers) {
        server.listen({ port: chosen, host, backlog, ...(listeners > 1 && { reusePort: true }) });
        await once(server, 'listening');
        chosen = portOf(server);
      }
      return new Listening(servers, { host, port: chosen, answering });
    } catch (error) {
      answering.closed();
      for (const server of servers) server.close();
      throw error;
    }
  }

  /** The base address that it is reached at. */
  get url(): string {
    return `http://${this.#host.includes(':') ? `[${this.#host}]` : this.#host}:${this.#port}`;
  }

  /** For each of the servers. */
  watch(look: (server: Server) => void): void {
    for (const server of this.#servers) look(server);
  }

  /**
   * Connections are kept alive between requests: they are closed as they fall idle. Shortly before the deadline what is
   * in progress is answered with the reason, and at the deadline all connections are closed.
   */
  async stop({ timeoutMs, reason }: { timeoutMs: number; reason: ServiceError }): Promise<void> {
    const each = (work: (server: Server) => void) => () => this.#servers.forEach(work);
    const closeIdle = each((server) => server.closeIdleConnections());
    const cut = setTimeout(
      each((server) => server.closeAllConnections()),
      timeoutMs,
    );
    this.#answering.close({ withinMs: timeoutMs, reason });
    const sweep = setInterval(closeIdle, 20);
    const closed = this.#servers.map((server) => new Promise<unknown>((resolve) => server.close(resolve)));
    closeIdle();
    await Promise.all(closed);
    clearTimeout(cut);
    clearInterval(sweep);
    this.#answering.closed();
  }
}

/** The port, or any where it is 0, if nobody listens on it. Rejects with the system's errors of listening. */
async function findFree(host: string, port: number): Promise<number> {
  const probe = createProbe();
  probe.listen({ port, host });
  await once(probe, 'listening');
  const found = portOf(probe);
  probe.close();
  await once(probe, 'close');
  return found;
}

function portOf(server: { address(): unknown }): number {
  const address = server.address();
  if (typeof address === 'object' && address !== null && 'port' in address) return Number(address.port);
  throw new TypeError('the server has no address');
}
