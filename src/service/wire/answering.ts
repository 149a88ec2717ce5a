import { IncomingMessage, type RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import type { ServiceError } from '../errors.ts';
import { requestIdHeader, type ServiceLog } from '../telemetry.ts';
import { Wire } from './wire.ts';

export interface LingeringOptions {
  /** How long a connection is read after its answer, in milliseconds. */
  limitMs: number;
  /** Most bytes discarded per request. */
  bytes: number;
  /** Most lingering connections; any further one is closed right after its answer. */
  connections: number;
}

/**
 * Reads and discards the rest of requests that were answered early. If a connection is closed with unread
 * data, the system resets it, and a client that sends everything first loses the answer (RFC 9112, 9.6).
 */
export class Lingering {
  readonly #options: LingeringOptions;
  readonly #leaving = new Set<() => void>();

  constructor(options: LingeringOptions) {
    this.#options = options;
  }

  /** Call this before the answer, which must include `connection: close`. */
  begin(incoming: IncomingMessage): void {
    const { limitMs, bytes, connections } = this.#options;
    if (this.#leaving.size >= connections || incoming.destroyed) return;
    const { socket } = incoming;
    const close = socket.destroySoon.bind(socket);
    let isAnswered = false;
    const leave = () => {
      if (!this.#leaving.delete(leave)) return;
      clearTimeout(timer);
      socket.off('close', leave);
      socket.destroySoon = close;
      if (isAnswered) close();
    };
    this.#leaving.add(leave);
    const timer = setTimeout(leave, limitMs);
    socket.once('close', leave);
    // Node calls this to close a connection after its last answer.
    socket.destroySoon = () => {
      isAnswered = true;
      socket.end();
    };
    let thrown = 0;
    incoming.on('data', (piece: Uint8Array) => {
      thrown += piece.byteLength;
      if (thrown > bytes) leave();
    });
    incoming.once('end', leave);
    incoming.resume();
  }

  /** Closes all lingering connections. */
  end(): void {
    for (const leave of this.#leaving) leave();
  }
}

export interface StalledReadersOptions {
  /** How long a client may read nothing of a waiting answer, in milliseconds. */
  limitMs: number;
  /** Called for each answer before its connection is cut. */
  onCut: (answer: ServerResponse) => void;
}

/** State of a connection when it last made progress. */
interface Progress {
  written: number;
  queued: number;
  since: number;
}

/** Cuts the connections of clients that do not read their answers. */
export class StalledReaders {
  readonly #options: StalledReadersOptions;
  readonly #answers = new Map<ServerResponse, Progress | null>();
  readonly #sweeping: NodeJS.Timeout;

  constructor(options: StalledReadersOptions) {
    this.#options = options;
    this.#sweeping = setInterval(() => this.#sweep(), Math.ceil(options.limitMs / 4));
    this.#sweeping.unref();
  }

  watch(answer: ServerResponse): void {
    this.#answers.set(answer, null);
    answer.once('close', () => this.#answers.delete(answer));
  }

  end(): void {
    clearInterval(this.#sweeping);
  }

  #sweep(): void {
    const now = performance.now();
    for (const [answer, before] of this.#answers) {
      const { socket } = answer;
      if (socket === null || socket.writableLength === 0) {
        if (before) this.#answers.set(answer, null);
        continue;
      }
      const written = socket.bytesWritten - socket.writableLength;
      const queued = queueOf(socket);
      if (before === null || before.written !== written || before.queued !== queued) {
        this.#answers.set(answer, { written, queued, since: now });
      } else if (now - before.since >= this.#options.limitMs) {
        this.#options.onCut(answer);
        // Reset instead of closed: otherwise the system keeps the unsent data for minutes.
        socket.resetAndDestroy();
      }
    }
  }
}

/**
 * Bytes of the current write that the system has not accepted yet. A large write counts as written only
 * when complete, so its progress shows only here; Node's own socket timeouts use the same value.
 */
function queueOf(socket: Socket): number {
  const handle: unknown = Reflect.get(socket, '_handle');
  const queued: unknown =
    typeof handle === 'object' && handle !== null ? Reflect.get(handle, 'writeQueueSize') : 0;
  return typeof queued === 'number' ? queued : 0;
}

/** For requests up to this size, the rest is read after the answer and the connection stays open. */
const shortBytes = 65_536;

/** How long, and on how many connections, the rest of larger requests is discarded. */
const lingeringLimits = { limitMs: 30_000, connections: 1024 };

/** At most this many times the largest body is discarded per request. */
const refusedBodies = 4;

/** Requests in progress get their last answer at most this long before the deadline. */
const lastAnswersMs = 1000;

export interface AnsweringOptions {
  fetch: (request: Request, env: { wire: Wire }) => Response | Promise<Response>;
  /** How long a client may pause while sending a body or reading an answer, in milliseconds. */
  stallTimeoutMs: number;
  /** Largest body, in bytes. */
  largestBody: number;
  log: ServiceLog;
}

/** Handles a request on its connection until the answer ends. */
export class Answering {
  readonly #options: AnsweringOptions;
  readonly #wires = new Set<Wire>();
  #reason: ServiceError | null = null;
  readonly #lingering: Lingering;
  readonly #readers: StalledReaders;
  readonly #requestIds = new WeakMap<ServerResponse, string>();
  #isClosing = false;
  #deadline: NodeJS.Timeout | undefined;

  constructor(options: AnsweringOptions) {
    const { stallTimeoutMs, largestBody, log } = options;
    this.#options = options;
    this.#lingering = new Lingering({ ...lingeringLimits, bytes: refusedBodies * largestBody });
    this.#readers = new StalledReaders({
      limitMs: stallTimeoutMs,
      onCut: (answer) => {
        const request = this.#requestIds.get(answer) ?? null;
        log({ level: 'info', event: 'answer_not_taken', request, stallTimeoutMs });
      },
    });
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
    return (incoming, outgoing) => {
      this.#readers.watch(outgoing);
      void answer(incoming, outgoing);
    };
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
      for (const wire of this.#wires) wire.end(reason);
    }, withinMs - restMs);
  }

  /** Call this once no connection is left. */
  closed(): void {
    clearTimeout(this.#deadline);
    this.#readers.end();
  }

  async #answer(request: Request, incoming: IncomingMessage, outgoing: ServerResponse): Promise<Response> {
    const { fetch, stallTimeoutMs } = this.#options;
    const wire = new Wire(incoming, outgoing, { stallTimeoutMs });
    this.#wires.add(wire);
    outgoing.once('close', () => this.#wires.delete(wire));
    if (this.#reason) wire.end(this.#reason);
    const response = await fetch(request, { wire });
    this.#requestIds.set(outgoing, response.headers.get(requestIdHeader) ?? '');
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
