import { randomBytes } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { type Trajectory, trajectoryClosed } from '../trajectory/index.ts';
import { httpUrl, startListening, stopListening } from '../util/http-server.ts';
import { answerRequest, keyPrefix } from './answer-request.ts';
import { EndpointError } from './endpoint-error.ts';
import { type EndpointModel, EndpointSession } from './session.ts';

/** Maximum number of pending connections; the system's limit may be lower. */
const backlog = 4096;
/** Long, because clients reuse connections and see a closed one as a failure. */
const keepAliveTimeoutMs = 120_000;
/** How long answers may take to reach their clients when the endpoint closes. */
const closeTimeoutMs = 1000;

/** The local server for the agents of all rollouts. Each rollout has its own key. */
export class EndpointServer {
  baseUrl = '';
  readonly #server: Server;
  readonly #sessions = new Map<string, EndpointSession>();
  readonly #byTrajectory = new WeakMap<Trajectory, Map<EndpointModel, EndpointSession>>();
  readonly #withoutTrajectory = new Map<EndpointModel, EndpointSession>();

  private constructor() {
    const find = (apiKey: string) => this.#sessions.get(apiKey);
    this.#server = createServer({ keepAliveTimeout: keepAliveTimeoutMs }, (request, response) => {
      void answerRequest(request, response, find);
    });
    this.#server.unref();
    this.#server.on('connection', (socket) => socket.unref());
  }

  static async start(): Promise<EndpointServer> {
    const started = new EndpointServer();
    const port = await startListening(started.#server, { host: '127.0.0.1', port: 0, backlog });
    started.baseUrl = `${httpUrl('127.0.0.1', port)}/v1`;
    return started;
  }

  /** The session of a model and a trajectory. Repeated calls return the same session. */
  open(model: EndpointModel, trajectory: Trajectory | undefined): EndpointSession {
    const known = this.#ofScope(trajectory);
    const session = known.get(model);
    if (session) return session;
    const opened = new EndpointSession(keyPrefix + randomBytes(18).toString('base64url'), model);
    known.set(model, opened);
    this.#sessions.set(opened.apiKey, opened);
    trajectory?.signal?.addEventListener(
      'abort',
      () => {
        this.#sessions.delete(opened.apiKey);
        this.#byTrajectory.delete(trajectory);
        // The error's stack would cost more than the rest of the rollout's end.
        if (opened.hasCalls) opened.end(trajectoryClosed(trajectory.id));
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
    await stopListening(this.#server, closeTimeoutMs);
  }

  #ofScope(trajectory: Trajectory | undefined): Map<EndpointModel, EndpointSession> {
    if (!trajectory) return this.#withoutTrajectory;
    const known = this.#byTrajectory.get(trajectory) ?? new Map<EndpointModel, EndpointSession>();
    this.#byTrajectory.set(trajectory, known);
    return known;
  }
}
