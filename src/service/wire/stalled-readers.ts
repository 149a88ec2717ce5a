import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

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
