import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { HttpMessage } from './http-message.ts';

export interface ProxiedRequest {
  method: string;
  /** Without the query. */
  path: string;
  message: HttpMessage;
  /** Number of earlier requests, over all connections. */
  index: number;
}

/** A complete request, and both connections, for a fault to use. */
export interface Exchange {
  request: ProxiedRequest;
  client: Socket;
  /** Sends bytes to the service (default: the whole request) on a new connection; yields the pieces of the reply. */
  ask(bytes?: Buffer): AsyncGenerator<Buffer, void, undefined>;
  /** Writes to the client; resolves to false if it has disconnected. */
  send(bytes: Buffer): Promise<boolean>;
  /** Resolves when the client has disconnected. */
  gone: Promise<void>;
  proxy: FaultyProxy;
}

export type Fault = (exchange: Exchange) => Promise<void>;

/** Passes a request and its reply unchanged. */
export const pass: Fault = async ({ ask, send }) => {
  for await (const piece of ask()) if (!(await send(piece))) return;
};

/**
 * A proxy in front of a service. It passes bytes on, or does to a request what `fault` chooses. It parses only as much
 * HTTP as it takes to find the end of a message.
 */
export class FaultyProxy {
  /** Chooses the fault of a request. */
  fault: (request: ProxiedRequest) => Fault = () => pass;
  /** Number of next connections to reset as soon as they are made. */
  resetConnections = 0;
  /** All requests, in order. */
  readonly seen: { method: string; path: string }[] = [];
  readonly #target: URL;
  readonly #server: Server;
  readonly #clients = new Set<Socket>();
  readonly #upstream = new Set<Socket>();
  readonly #replied: (() => void)[] = [];
  #failure: unknown;
  #port = 0;

  private constructor(target: string) {
    this.#target = new URL(target);
    this.#server = createServer({ noDelay: true }, (client) => this.#serve(client));
  }

  static async start(target: string): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(target);
    await proxy.listen();
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Number of open connections of clients. */
  get open(): number {
    return this.#clients.size;
  }

  /** Opens the port, again on the same number. */
  async listen(): Promise<void> {
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    if (typeof address !== 'object' || !address) throw new TypeError('no address');
    this.#port = address.port;
  }

  /** Closes the port and all connections; new connections are refused. */
  async shut(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of [...this.#clients, ...this.#upstream]) socket.destroy();
    await closed;
  }

  /** Resolves when the next reply has passed on any connection. */
  nextReply(): Promise<void> {
    return new Promise((resolve) => this.#replied.push(resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#server.listening) await this.shut();
    if (this.#failure) throw this.#failure;
  }

  #serve(client: Socket): void {
    client.on('error', () => {});
    if (this.resetConnections > 0) {
      this.resetConnections--;
      client.resetAndDestroy();
      return;
    }
    this.#clients.add(client);
    const gone = new Promise<void>((resolve) =>
      client.once('close', () => {
        this.#clients.delete(client);
        resolve();
      }),
    );
    let message = new HttpMessage();
    let turn = Promise.resolve();
    // Always read, so that a disconnect is noticed while the request is held.
    client.on('data', (chunk: Buffer) => {
      let rest = message.push(chunk);
      while (message.isWhole) {
        const whole = message;
        turn = turn
          .then(() => this.#exchange(whole, client, gone))
          .catch((error) => this.#fail(error, client));
        message = new HttpMessage();
        if (rest.length > 0) rest = message.push(rest);
      }
    });
  }

  #fail(error: unknown, client: Socket): void {
    this.#failure ??= error;
    client.destroy();
  }

  async #exchange(message: HttpMessage, client: Socket, gone: Promise<void>): Promise<void> {
    if (client.destroyed) return;
    const [method = '', target = ''] = message.startLine.split(' ');
    const path = target.split('?')[0] ?? '';
    const request = { method, path, message, index: this.seen.length };
    this.seen.push({ method, path });
    const fault = this.fault(request);
    await fault({
      request,
      client,
      gone,
      proxy: this,
      ask: (bytes = message.bytes) => this.#ask(bytes),
      send: (bytes) => sendTo(client, bytes),
    });
    for (const resolve of this.#replied.splice(0)) resolve();
  }

  async *#ask(bytes: Buffer): AsyncGenerator<Buffer, void, undefined> {
    const socket = connect({ port: Number(this.#target.port), host: this.#target.hostname, noDelay: true });
    this.#upstream.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => this.#upstream.delete(socket));
    socket.write(bytes);
    const reply = new HttpMessage();
    try {
      for await (const chunk of alive(socket)) {
        const rest = reply.push(chunk);
        yield rest.length > 0 ? chunk.subarray(0, chunk.length - rest.length) : chunk;
        if (reply.isWhole) return;
      }
    } finally {
      socket.destroy();
    }
  }
}

/** The data of a socket until it closes for any reason. */
async function* alive(socket: Socket): AsyncGenerator<Buffer, void, undefined> {
  try {
    for await (const chunk of socket.iterator({ destroyOnReturn: false })) yield chunk;
  } catch {
    // A reset ends the data too.
  }
}

function sendTo(client: Socket, bytes: Buffer): Promise<boolean> {
  if (client.destroyed || client.writableEnded) return Promise.resolve(false);
  return new Promise((resolve) => client.write(bytes, (error) => resolve(!error)));
}
