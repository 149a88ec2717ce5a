import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Context } from 'hono';
import { accepted } from './turns.ts';

/** Counts a server's connections, and knows those that came when there were enough. */
export class Connections {
  readonly #limit: number;
  readonly #beyond = new WeakSet<object>();
  #open = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  watch(server: Server): void {
    server.on('connection', (socket: Socket) => {
      accepted();
      this.#open++;
      if (this.#open > this.#limit) this.#beyond.add(socket);
      socket.once('close', () => this.#open--);
    });
  }

  /** Whether a request came on a connection too many. */
  isBeyond({ env }: Context): boolean {
    const socket: unknown = env?.incoming?.socket;
    return typeof socket === 'object' && socket !== null && this.#beyond.has(socket);
  }
}
