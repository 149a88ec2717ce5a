import { AsyncLocalStorage } from 'node:async_hooks';
import { currentTrajectory, ownModelAt, trajectoryClosed } from '../trajectory/index.ts';
import type { EndpointModel } from './endpoint-model.ts';
import type { EndpointServer } from './endpoint-server.ts';

/** Where programs in any language call the model of a rollout, and the key that names the rollout. */
export interface ModelEndpoint {
  /** Base URL with `/v1` at its end: what OpenAI-compatible clients call `baseURL`. */
  baseUrl: string;
  /** Bearer key of one trajectory; it stops working when the rollout ends. */
  apiKey: string;
}

/** The server must not belong to the rollout that happens to start it. */
const outsideOfAll = AsyncLocalStorage.snapshot();

let running: Promise<EndpointServer> | undefined;

/**
 * A base URL and a key of the current trajectory, or, outside of a rollout, one that records nothing and lasts until
 * `closeEndpoints()`. The first call starts the process's server, on a free port of 127.0.0.1; it never keeps the
 * process alive.
 * @throws TrajectoryError of code `trajectory_closed` in a rollout that has ended.
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
  ownModelAt(server.baseUrl);
  const { apiKey } = server.open(model, trajectory);
  return { baseUrl: server.baseUrl, apiKey };
}

/**
 * Stops the process's endpoint server: calls in flight are cut short and every key ends. The next `endpoint()` starts
 * another. Needed only where its port must be free again: the server ends with the process and does not hold it.
 */
export async function closeEndpoints(): Promise<void> {
  // A server that could not be started has nothing to close: whoever started it was told.
  const closing = running?.catch(() => undefined);
  running = undefined;
  await (await closing)?.close();
}

/** Who has no use for an endpoint loads no server. */
async function start(): Promise<EndpointServer> {
  const { EndpointServer } = await import('./endpoint-server.ts');
  return EndpointServer.start();
}
