import type { IncomingMessage } from 'node:http';

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
