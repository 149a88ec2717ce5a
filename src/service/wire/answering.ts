import { IncomingMessage, type RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import type { ServiceError } from '../errors.ts';
import type { ServiceLog } from '../log.ts';
import { requestIdHeader } from '../request-headers.ts';
import { Wire } from './wire.ts';

export interface LingeringOptions {
  /** Most milliseconds for which a connection is read on after its answer. */
  limitMs: number;
  /** Most bytes that are thrown away of one request. */
  bytes: number;
  /** Most connections at once. One more is closed with its answer. */
  connections: number;
}

/**
 * Reads on, and throws away, what comes of requests that were answered before their end. The system cuts a connection
 * that is closed with something unread in it, and the answer is lost to a client that first sends everything
 * (RFC 9112, 9.6).
 */
export class Lingering {
  readonly #options: LingeringOptions;
  readonly #leaving = new Set<() => void>();

  constructor(options: LingeringOptions) {
    this.#options = options;
  }

  /** To be called before the answer, which has to say `connection: close`. */
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
    // What Node closes a connection with after its last answer.
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

  /** Closes all of them. */
  end(): void {
    for (const leave of this.#leaving) leave();
  }
}

export interface StalledReadersOptions {
  /** Most milliseconds for which a client takes nothing of what waits for it. */
  limitMs: number;
  /** Hears of each answer that is cut, before it is. */
  onCut: (answer: ServerResponse) => void;
}

/** How far a connection was when it last got on. */
interface Progress {
  written: number;
  queued: number;
  since: number;
}

/** Cuts the connections of clients that do not take their answers. */
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
        // Not closed: the system would keep what it has taken for the client for minutes.
        socket.resetAndDestroy();
      }
    }
  }
}

/**
 * Bytes of the write in progress that the system has not taken yet. Only by them does a large write, which counts as
 * written when all of it is, show that it gets on; Node's own time limits of sockets look there too.
 */
function queueOf(socket: Socket): number {
  const handle: unknown = Reflect.get(socket, '_handle');
  const queued: unknown =
    typeof handle === 'object' && handle !== null ? Reflect.get(handle, 'writeQueueSize') : 0;
  return typeof queued === 'number' ? queued : 0;
}

/** Of a request of no more than this, the rest is waited for after its answer, and the connection lives on. */
const shortBytes = 65_536;

/** How long, and on how many connections, the rest of other requests is thrown away. */
const lingeringLimits = { limitMs: 30_000, connections: 1024 };

/** So many times as many bytes as a body may have are thrown away of one that is refused. */
const refusedBodies = 4;

/** Longest time before the deadline at which what is in progress is given its last answer. */
const lastAnswersMs = 1000;

export interface AnsweringOptions {
  fetch: (request: Request, env: { wire: Wire }) => Response | Promise<Response>;
  /** How long a client may send nothing of a body that is waited for, or take nothing of its answer. */
  stallTimeoutMs: number;
  /** Most bytes that a body may have. */
  largestBody: number;
  log: ServiceLog;
}

/** What happens on a connection between a request and the end of its answer. */
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

  /** Answers the requests of a server. `host` is that of those which name none. */
  listener(host: string): RequestListener {
    const answer = getRequestListener(
      (request, { incoming, outgoing }) => {
        if (incoming instanceof IncomingMessage && outgoing instanceof ServerResponse)
          return this.#answer(request, incoming, outgoing);
        throw new TypeError('the request did not come over HTTP/1.1');
      },
      // Its own cleaning up would cut connections after half a second.
      { hostname: host, autoCleanupIncoming: false },
    );
    return (incoming, outgoing) => {
      this.#readers.watch(outgoing);
      void answer(incoming, outgoing);
    };
  }

  /** From now on an answer is the last of its connection; shortly before the deadline there is no other than `reason`. */
  close({ withinMs, reason }: { withinMs: number; reason: ServiceError }): void {
    this.#isClosing = true;
    this.#lingering.end();
    const restMs = Math.min(lastAnswersMs, withinMs / 2);
    this.#deadline = setTimeout(() => {
      this.#reason = reason;
      for (const wire of this.#wires) wire.end(reason);
    }, withinMs - restMs);
  }

  /** No connection is left. */
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

/** Whether what is missing of a request, and that nobody has begun to read, is not worth a connection. */
function isShort({ headers, readableDidRead }: IncomingMessage): boolean {
  return !readableDidRead && Number(headers['content-length'] ?? Number.POSITIVE_INFINITY) <= shortBytes;
}
