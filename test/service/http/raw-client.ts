import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** A connection for raw bytes. It stays open when the service closes its side. */
export class RawClient {
  readonly socket: Socket;
  /** Resolves when the connection is closed, with the code of its error, or null. */
  readonly closed: Promise<string | null>;
  /** Resolves when the service has closed its side, or the connection is closed. */
  readonly ended: Promise<unknown>;
  #received = '';

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    this.socket.pause();
    let code: string | null = null;
    this.socket.on('error', (error) => {
      code = 'code' in error ? String(error.code) : error.message;
    });
    this.closed = once(this.socket, 'close').then(
      () => code,
      () => code,
    );
    this.ended = Promise.race([once(this.socket, 'end').catch(() => {}), this.closed]);
    this.socket.on('data', (piece) => {
      this.#received += piece.toString('latin1');
    });
    this.socket.pause();
    onTestFinished(() => {
      this.socket.destroy();
    });
  }

  get received(): string {
    return this.#received;
  }

  /** Status of the first answer, or null if there is none. */
  get status(): number | null {
    const found = /^HTTP\/1\.1 (\d{3})/.exec(this.#received);
    return found ? Number(found[1]) : null;
  }

  header(name: string): string | null {
    return new RegExp(`\\r\\n${name}: ([^\\r]*)`, 'i').exec(this.#received)?.[1] ?? null;
  }

  /** Resolves once the system has accepted the bytes. */
  write(bytes: string | Uint8Array): Promise<void> {
    return new Promise((resolve) => this.socket.write(bytes, () => resolve()));
  }

  /** Begins to read. */
  read(): this {
    this.socket.resume();
    return this;
  }
}

export interface RawRequest {
  method?: string;
  path: string;
  key?: string;
  /** Body of the request, or only its announced length. */
  body?: string | number;
  headers?: Record<string, string>;
}

/** Text of a request; only its head if the body is only announced. */
export function requestText({
  method = 'POST',
  path,
  key = 'test-key',
  body,
  headers = {},
}: RawRequest): string {
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body;
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'host: service',
    `authorization: Bearer ${key}`,
    'content-type: application/json',
    ...(length === undefined ? [] : [`content-length: ${length}`]),
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  return `${lines.join('\r\n')}\r\n\r\n${typeof body === 'string' ? body : ''}`;
}
