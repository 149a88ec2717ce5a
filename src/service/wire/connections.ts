import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Context } from 'hono';
import { accepted } from '../ticks.ts';
import { wireOf } from './wire.ts';

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
