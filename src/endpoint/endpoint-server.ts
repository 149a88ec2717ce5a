import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { type Trajectory, trajectoryClosed } from '../trajectory/index.ts';
import { createEndpointApp } from './app.ts';
import { EndpointError } from './endpoint-error.ts';
import type { EndpointModel } from './endpoint-model.ts';
import { EndpointSession } from './session.ts';

const prefix = 'martingale';

/** Creates keys, and recognizes its own keys without storing them. */
export class EndpointKeys {
  readonly #secret = randomBytes(32);

  create(): string {
    const id = randomBytes(18).toString('base64url');
    return `${prefix}.${id}.${this.#mark(id)}`;
  }

  /** Whether the key was created here, valid or expired. */
  isOwn(key: string): boolean {
    const [name, id, mark, more] = key.split('.');
    if (name !== prefix || id === undefined || mark === undefined || more !== undefined) return false;
    const given = Buffer.from(mark);
    const expected = Buffer.from(this.#mark(id));
    return given.length === expected.length && timingSafeEqual(given, expected);
  }

  #mark(id: string): string {
    return createHmac('sha256', this.#secret).update(id).digest('base64url').slice(0, 24);
  }
}

/** Maximum number of pending connections; the system's limit may be lower. */
const backlog = 4096;
/** Long, because clients reuse connections and see a closed one as a failure. */
const keepAliveTimeoutMs = 120_000;
/** How long answers may take to reach their clients when the endpoint closes. */
const closeTimeoutMs = 1000;

/** The local server for the agents of all rollouts. Each rollout has its own key. */
export class EndpointServer {
  readonly baseUrl: string;
  readonly #server: Server;
  readonly #keys: EndpointKeys;
  readonly #sessions: Map<string, EndpointSession>;
  readonly #ofTrajectories = new WeakMap<Trajectory, Map<EndpointModel, EndpointSession>>();
  readonly #ofNone = new Map<EndpointModel, EndpointSession>();

  private constructor(
    server: Server,
    baseUrl: string,
    keys: EndpointKeys,
    sessions: Map<string, EndpointSession>,
  ) {
    this.#server = server;
    this.baseUrl = baseUrl;
    this.#keys = keys;
    this.#sessions = sessions;
  }

  static async start(): Promise<EndpointServer> {
    const keys = new EndpointKeys();
    const sessions = new Map<string, EndpointSession>();
    const app = createEndpointApp({
      find: (apiKey) => sessions.get(apiKey),
      isOwn: (apiKey) => keys.isOwn(apiKey),
    });
    // Keeps the process's global `Request` and `Response`, which belong to the user.
    const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false });
    const server = createServer({ keepAliveTimeout: keepAliveTimeoutMs }, listener);
    server.unref();
    server.on('connection', (socket) => socket.unref());
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host: '127.0.0.1', port: 0, backlog }, () => {
        server.off('error', reject);
        resolve();
      });
    });
    const address = server.address();
    if (typeof address !== 'object' || address === null) throw new TypeError('The endpoint has no address.');
    return new EndpointServer(server, `http://127.0.0.1:${address.port}/v1`, keys, sessions);
  }

  /** The session of a model and a trajectory. Repeated calls return the same session. */
  open(model: EndpointModel, trajectory: Trajectory | undefined): EndpointSession {
    const known = this.#ofScope(trajectory);
    const session = known.get(model);
    if (session) return session;
    const opened = new EndpointSession(this.#keys.create(), model);
    known.set(model, opened);
    this.#sessions.set(opened.apiKey, opened);
    trajectory?.signal?.addEventListener(
      'abort',
      () => {
        this.#sessions.delete(opened.apiKey);
        this.#ofTrajectories.delete(trajectory);
        opened.end(trajectoryClosed(trajectory.id));
      },
      { once: true },
    );
    return opened;
  }

  async close(): Promise<void> {
    const closed = new EndpointError(
      503,
      'endpoint_closed',
      'The endpoint was closed by `closeEndpoints()`.',
    );
    for (const session of this.#sessions.values()) session.end(closed);
    this.#sessions.clear();
    // Waiting clients get their error before their connections are closed.
    const sweep = setInterval(() => this.#server.closeIdleConnections(), 10);
    const cut = setTimeout(() => this.#server.closeAllConnections(), closeTimeoutMs);
    await new Promise((resolve) => {
      this.#server.close(resolve);
      this.#server.closeIdleConnections();
    });
    clearInterval(sweep);
    clearTimeout(cut);
  }

  #ofScope(trajectory: Trajectory | undefined): Map<EndpointModel, EndpointSession> {
    if (!trajectory) return this.#ofNone;
    const known = this.#ofTrajectories.get(trajectory) ?? new Map<EndpointModel, EndpointSession>();
    this.#ofTrajectories.set(trajectory, known);
    return known;
  }
}
