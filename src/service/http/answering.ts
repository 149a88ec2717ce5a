import { IncomingMessage, type RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import type { ServiceError } from '../errors.ts';
import type { ServiceLog } from '../telemetry.ts';
import { HttpExchange } from './exchange.ts';

/**
 * Reads and discards the rest of requests that were answered early. If a connection is closed with unread
 * data, the system resets it, and a client that sends everything first loses the answer (RFC 9112, 9.6).
 */
export class Lingering {
  readonly #limitMs: number;
  readonly #leaving = new Set<() => void>();

  /** `limitMs`: how long a connection is read after its answer. */
  constructor(limitMs = 30_000) {
    this.#limitMs = limitMs;
  }

  /** Call this before the answer, which must include `connection: close`. */
  begin(incoming: IncomingMessage): void {
    if (incoming.destroyed) return;
    const { socket } = incoming;
    const close = socket.destroySoon.bind(socket);
    let isAnswered = false;
    const leave = () => {
      this.#leaving.delete(leave);
      clearTimeout(timer);
      socket.destroySoon = close;
      if (isAnswered) close();
    };
    this.#leaving.add(leave);
    const timer = setTimeout(leave, this.#limitMs);
    socket.once('close', leave);
    // Node calls this to close a connection after its last answer.
    socket.destroySoon = () => {
      isAnswered = true;
      socket.end();
    };
    incoming.once('end', leave);
    incoming.resume();
  }

  /** Closes all lingering connections. */
  end(): void {
    for (const leave of this.#leaving) leave();
  }
}

/**
 * Cuts the connection of a client that reads nothing of a waiting answer for `limitMs`. `onCut` is called before. A
 * large write that the system accepts bit by bit restarts Node's timeout, too.
 */
export function cutStalledReader(answer: ServerResponse, limitMs: number, onCut: () => void): void {
  answer.setTimeout(limitMs).on('timeout', (socket: Socket) => {
    if (socket.writableLength === 0) {
      // The client waits for the service.
      socket.setTimeout(limitMs);
      return;
    }
    onCut();
    // Reset instead of closed: otherwise the system keeps the unsent data for minutes.
    socket.resetAndDestroy();
  });
}

/** For requests up to this size, the rest is read after the answer and the connection stays open. */
const shortBytes = 65_536;

/** Requests in progress get their last answer at most this long before the deadline. */
const lastAnswersMs = 1000;

export interface AnsweringOptions {
  fetch: (request: Request, env: { exchange: HttpExchange }) => Response | Promise<Response>;
  /** How long a client may pause while sending a body or reading an answer, in milliseconds. */
  stallTimeoutMs: number;
  log: ServiceLog;
}

/** Handles a request on its connection until the answer ends. */
export class Answering {
  readonly #options: AnsweringOptions;
  readonly #exchanges = new Set<HttpExchange>();
  #reason: ServiceError | null = null;
  readonly #lingering = new Lingering();
  #isClosing = false;
  #deadline: NodeJS.Timeout | undefined;

  constructor(options: AnsweringOptions) {
    this.#options = options;
  }

  /** The listener of a server. `host` is used for requests without one. */
  listener(host: string): RequestListener {
    const answer = getRequestListener(
      (request, { incoming, outgoing }) => {
        if (incoming instanceof IncomingMessage && outgoing instanceof ServerResponse)
          return this.#answer(request, incoming, outgoing);
        throw new TypeError('the request did not come over HTTP/1.1');
      },
      // The adapter's own cleanup would cut connections after half a second.
      { hostname: host, autoCleanupIncoming: false },
    );
    return (incoming, outgoing) => void answer(incoming, outgoing);
  }

  /**
   * From now on every answer closes its connection. Shortly before the deadline all remaining requests get
   * `reason`.
   */
  close({ withinMs, reason }: { withinMs: number; reason: ServiceError }): void {
    this.#isClosing = true;
    this.#lingering.end();
    const restMs = Math.min(lastAnswersMs, withinMs / 2);
    this.#deadline = setTimeout(() => {
      this.#reason = reason;
      for (const exchange of this.#exchanges) exchange.end(reason);
    }, withinMs - restMs);
  }

  /** Call this once no connection is left. */
  closed(): void {
    clearTimeout(this.#deadline);
  }

  async #answer(request: Request, incoming: IncomingMessage, outgoing: ServerResponse): Promise<Response> {
    const { fetch, stallTimeoutMs, log } = this.#options;
    const exchange = new HttpExchange(incoming, outgoing, { stallTimeoutMs });
    this.#exchanges.add(exchange);
    outgoing.once('close', () => this.#exchanges.delete(exchange));
    if (this.#reason) exchange.end(this.#reason);
    const response = await fetch(request, { exchange });
    cutStalledReader(outgoing, stallTimeoutMs, () =>
      log({ level: 'info', event: 'client_stalled', request: exchange.requestId, stallTimeoutMs }),
    );
    const isOpen = !incoming.complete && !incoming.destroyed;
    const isLast = this.#isClosing || (isOpen && (response.status === 408 || !isShort(incoming)));
    if (isLast) response.headers.set('connection', 'close');
    if (isOpen && response.headers.has('connection')) this.#lingering.begin(incoming);
    return response;
  }
}

/** Whether a request nobody has begun to read is short enough to keep its connection. */
function isShort({ headers, readableDidRead }: IncomingMessage): boolean {
  return !readableDidRead && Number(headers['content-length'] ?? Number.POSITIVE_INFINITY) <= shortBytes;
}
