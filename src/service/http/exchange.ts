import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Context } from 'hono';
import { MartingaleError } from '../../contract/index.ts';
import { ServiceError } from '../errors.ts';
import { requestIdHeader } from '../telemetry.ts';
import { accepted } from '../ticks.ts';

/** The client disconnected, so nobody reads the answer. */
export class ClientLeftError extends MartingaleError {
  constructor() {
    super('client_left', 'The client disconnected before the answer.');
  }
}

/** The error for a body that ends early. */
const bodyCutError = (cause: unknown) =>
  new ServiceError(400, 'body_cut', 'The connection closed before the end of the body.', { cause });

/** A request and its answer: the body as it arrives, and whether the client still waits. */
export class HttpExchange {
  readonly #incoming: IncomingMessage;
  readonly #outgoing: ServerResponse;
  readonly #stallTimeoutMs: number;
  #unneeded: AbortController | null = null;
  #stopReading: ((error: unknown) => void) | null = null;
  #ended: ServiceError | null = null;
  #requestId: string | null = null;

  /** `stallTimeoutMs`: longest pause of a body being read, in milliseconds. */
  constructor(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    { stallTimeoutMs }: { stallTimeoutMs: number },
  ) {
    this.#incoming = incoming;
    this.#outgoing = outgoing;
    this.#stallTimeoutMs = stallTimeoutMs;
  }

  get socket(): Socket {
    return this.#incoming.socket;
  }

  /** The request's id, as the answer and the log show it; null before `identify`. */
  get requestId(): string | null {
    return this.#requestId;
  }

  /** Sets the request's id, which becomes a header of the answer. */
  identify(id: string): void {
    this.#requestId = id;
    this.#outgoing.setHeader(requestIdHeader, id);
  }

  /** Sends everything that the rest of this tick writes as one packet: headers and the beginning of a stream. */
  gather(): void {
    const { socket } = this;
    socket.cork();
    process.nextTick(() => socket.uncork());
  }

  /** Cuts the connection: the only way to report an error once the answer has begun. */
  cut(): void {
    this.#outgoing.destroy();
  }

  /**
   * Yields the body in chunks. If the reader stops early, the rest stays unread.
   *
   * @throws ServiceError `body_cut` if the body ends early, `body_stalled` if it pauses for too long.
   */
  async *pieces(): AsyncGenerator<Uint8Array> {
    const incoming = this.#incoming;
    for (;;) {
      const piece: unknown = incoming.read();
      if (piece instanceof Uint8Array) yield piece;
      else if (incoming.readableEnded) return;
      else await this.#more();
    }
  }

  /**
   * A signal that aborts when the answer is no longer needed or must be sent at once. After this call, a
   * client that closed its sending side counts as disconnected: the two cannot be distinguished.
   */
  signalWhileNeeded(): AbortSignal {
    if (this.#unneeded) return this.#unneeded.signal;
    const unneeded = new AbortController();
    this.#unneeded = unneeded;
    const outgoing = this.#outgoing;
    const { socket } = this;
    const leave = () => socket.destroy();
    const closed = () => {
      socket.off('end', leave);
      if (!outgoing.writableFinished) unneeded.abort(new ClientLeftError());
    };
    if (this.#ended) unneeded.abort(this.#ended);
    if (outgoing.destroyed) closed();
    else outgoing.once('close', closed);
    if (socket.readableEnded) leave();
    else socket.once('end', leave);
    return unneeded.signal;
  }

  /** Ends all waiting for this request with `reason`. */
  end(reason: ServiceError): void {
    this.#ended = reason;
    this.#unneeded?.abort(reason);
    this.#stopReading?.(reason);
  }

  /** Waits for more of the body, or its end. */
  #more(): Promise<void> {
    const incoming = this.#incoming;
    const limitMs = this.#stallTimeoutMs;
    return new Promise((resolve, reject) => {
      const stop = () => {
        clearTimeout(timer);
        this.#stopReading = null;
        incoming.off('readable', onReadable).off('end', onReadable).off('error', onCut).off('close', onCut);
      };
      const onReadable = () => {
        stop();
        resolve();
      };
      const fail = (error: unknown) => {
        stop();
        reject(error);
      };
      const onCut = () => fail(bodyCutError(incoming.errored ?? undefined));
      const timer = setTimeout(() => fail(stalled(limitMs)), limitMs);
      this.#stopReading = fail;
      incoming.on('readable', onReadable).on('end', onReadable).on('error', onCut).on('close', onCut);
      if (incoming.destroyed) onCut();
      else if (this.#ended) fail(this.#ended);
    });
  }
}

export function exchangeOf({ env }: Context): HttpExchange {
  const exchange: unknown = env?.exchange;
  if (exchange instanceof HttpExchange) return exchange;
  throw new TypeError('the request has no connection');
}

function stalled(limitMs: number): ServiceError {
  return new ServiceError(408, 'body_stalled', `The body paused for ${limitMs} ms (stallTimeoutMs).`);
}

/** Counts a server's connections and remembers those beyond the limit. */
export class Connections {
  readonly #limit: number;
  readonly #beyond = new WeakSet<Socket>();
  #open = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  watch(server: Server): void {
    server.on('connection', (socket: Socket) => {
      accepted();
      // Each of many pipelined requests adds a listener for its end.
      socket.setMaxListeners(0);
      this.#open++;
      if (this.#open > this.#limit) this.#beyond.add(socket);
      socket.once('close', () => this.#open--);
    });
  }

  /** Whether a request came on a connection beyond the limit. */
  isBeyond(context: Context): boolean {
    return this.#beyond.has(exchangeOf(context).socket);
  }
}
