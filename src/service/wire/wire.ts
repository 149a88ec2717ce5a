import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Context } from 'hono';
import { MartingaleError } from '../../contract/index.ts';
import { ServiceError } from '../errors.ts';
import { accepted } from '../ticks.ts';

/** The client of a request is not there any more: nobody reads what it is answered. */
export class ClientLeftError extends MartingaleError {
  constructor() {
    super('client_left', 'The client went away before its answer.');
  }
}

/** What a body is refused with that broke off. */
export const cutOff = (cause: unknown) =>
  new ServiceError(400, 'body_cut', 'The connection broke before the body was whole.', { cause });

/** The connection of one request: its body, as it comes, and whether somebody waits for the answer. */
export class Wire {
  readonly #incoming: IncomingMessage;
  readonly #outgoing: ServerResponse;
  readonly #stallTimeoutMs: number;
  #wanted: AbortController | null = null;
  #stopReading: ((error: unknown) => void) | null = null;
  #ended: ServiceError | null = null;

  /** `stallTimeoutMs`: most milliseconds without a byte of a body that is being read. */
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

  /** Cuts the connection, which is all that tells a client of a fault once the answer has begun. */
  cut(): void {
    this.#outgoing.destroy();
  }

  /**
   * The pieces of the body. What is left of it when it is not read to its end stays where it is.
   *
   * @throws ServiceError `body_cut` where it breaks off, `body_stalled` where nothing comes for too long.
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
   * A signal that aborts when an answer is not wanted any more, or has to be given at once. A client that has closed
   * its side of the connection counts as gone from the call on: one that left altogether looks no different.
   */
  whileWanted(): AbortSignal {
    if (this.#wanted) return this.#wanted.signal;
    const wanted = new AbortController();
    this.#wanted = wanted;
    const outgoing = this.#outgoing;
    const { socket } = this;
    const leave = () => socket.destroy();
    const closed = () => {
      socket.off('end', leave);
      if (!outgoing.writableFinished) wanted.abort(new ClientLeftError());
    };
    if (this.#ended) wanted.abort(this.#ended);
    if (outgoing.destroyed) closed();
    else outgoing.once('close', closed);
    if (socket.readableEnded) leave();
    else socket.once('end', leave);
    return wanted.signal;
  }

  /** What is waited for ends with this reason, as far as it ends with the connection. */
  end(reason: ServiceError): void {
    this.#ended = reason;
    this.#wanted?.abort(reason);
    this.#stopReading?.(reason);
  }

  /** Waits until there is more of the body, or its end. */
  #more(): Promise<void> {
    const incoming = this.#incoming;
    const limitMs = this.#stallTimeoutMs;
    return new Promise((resolve, reject) => {
      const stop = () => {
        clearTimeout(timer);
        this.#stopReading = null;
        incoming.off('readable', come).off('end', come).off('error', broken).off('close', broken);
      };
      const come = () => {
        stop();
        resolve();
      };
      const fail = (error: unknown) => {
        stop();
        reject(error);
      };
      const broken = () => fail(cutOff(incoming.errored ?? undefined));
      const timer = setTimeout(() => fail(stalled(limitMs)), limitMs);
      this.#stopReading = fail;
      incoming.on('readable', come).on('end', come).on('error', broken).on('close', broken);
      if (incoming.destroyed) broken();
      else if (this.#ended) fail(this.#ended);
    });
  }
}

export function wireOf({ env }: Context): Wire {
  const wire: unknown = env?.wire;
  if (wire instanceof Wire) return wire;
  throw new TypeError('the request came over no wire');
}

function stalled(limitMs: number): ServiceError {
  return new ServiceError(
    408,
    'body_stalled',
    `Nothing of the body came for ${limitMs} ms (stallTimeoutMs); send it without such pauses.`,
  );
}

/** Counts a server's connections, and knows those that came when there were enough. */
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
      // Whoever sends many requests at once has as many waiting for its end.
      socket.setMaxListeners(0);
      this.#open++;
      if (this.#open > this.#limit) this.#beyond.add(socket);
      socket.once('close', () => this.#open--);
    });
  }

  /** Whether a request came on a connection too many. */
  isBeyond(context: Context): boolean {
    return this.#beyond.has(wireOf(context).socket);
  }
}
