import { AsyncLocalStorage } from 'node:async_hooks';
import { currentTrajectory, registerOwnHost, trajectoryClosed } from '../trajectory/index.ts';
import type { EndpointServer } from './endpoint-server.ts';
import type { EndpointModel } from './session.ts';

/** Address of a rollout's model for programs in any language, and the key that identifies the rollout. */
export interface ModelEndpoint {
  /** Base URL with `/v1` at its end, the `baseURL` of the clients of OpenAI and Anthropic. */
  baseUrl: string;
  /** Key of one trajectory, as a bearer key or `x-api-key`. It expires when the rollout ends. */
  apiKey: string;
}

/** The async scope outside of all rollouts: the server must not belong to the rollout that starts it. */
const outsideOfAll = AsyncLocalStorage.snapshot();

let running: Promise<EndpointServer> | undefined;

/**
 * A base URL and a key for the current trajectory. Outside of a rollout the key records nothing and lasts until
 * `closeEndpoints()`. The first call starts the process's server on a free port of 127.0.0.1. The server does not keep
 * the process alive.
 * @throws TrajectoryError of code `trajectory_closed` if the rollout has ended.
 */
export async function openEndpoint(model: EndpointModel): Promise<ModelEndpoint> {
  const trajectory = currentTrajectory();
  running ??= outsideOfAll(start);
  const starting = running;
  const server = await starting.catch((error: unknown) => {
    if (running === starting) running = undefined;
    throw error;
  });
  if (trajectory?.signal?.aborted) throw trajectoryClosed(trajectory.id);
  registerOwnHost(server.baseUrl);
  const { apiKey } = server.open(model, trajectory);
  return { baseUrl: server.baseUrl, apiKey };
}

/**
 * Stops the process's endpoint server. Calls in flight are aborted and all keys expire. The next `endpoint()` starts a
 * new server. Only needed to free the port, because the server does not keep the process alive.
 */
export async function closeEndpoints(): Promise<void> {
  // A server that failed to start has nothing to close, and its caller has the error.
  const closing = running?.catch(() => undefined);
  running = undefined;
  await (await closing)?.close();
}

/** Imports the server lazily, so that programs without an endpoint do not load it. */
async function start(): Promise<EndpointServer> {
  const { EndpointServer } = await import('./endpoint-server.ts');
  return EndpointServer.start();
}
