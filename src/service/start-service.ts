import { type ServerType, serve } from '@hono/node-server';
import type { Engine } from '../engines/engine.ts';
import { createApp } from './app.ts';
import { type BodyLimits, defaultBodyLimits } from './context.ts';
import { ServiceError } from './errors.ts';
import { createKey } from './keys.ts';
import type { ServiceLog } from './log.ts';
import { openService } from './open-service.ts';
import { KeyStore } from './store/key-store.ts';
import { resolveSources, type TrainingDataOptions } from './training-data/sources.ts';

export interface StartServiceOptions {
  /** What samples and trains. The service does not close it: whoever made it does. */
  engine: Engine;
  /** Folder of everything the service keeps. Made where it is not there; one service at a time may use it. */
  dataFolder: string;
  /**
   * A key that every request may carry as its bearer token, beside those that `martingale keys create` has put into
   * the data folder. Default: a random one, returned.
   */
  apiKey?: string;
  /** Address to listen on. Default 127.0.0.1; anything but loopback needs an `apiKey`, or a key in the data folder. */
  host?: string;
  /** Default 0: any free port. */
  port?: number;
  /** Largest bodies in bytes. Default: 16 MiB for chat completions, 256 MiB under /v1/preview. */
  bodyLimits?: Partial<BodyLimits>;
  /** Entity of models whose creator names none. Default "local". */
  defaultEntity?: string;
  /**
   * Whether chat requests may have a `priority`: of those that wait, the ones with the lowest value are then taken
   * first. Default false: anybody with a key could put themselves before the others. Another value than 0 is refused.
   */
  priorityScheduling?: boolean;
  /** Where `training_data_url` may point beside uploads. Default: nowhere. */
  trainingData?: TrainingDataOptions;
  /** How long a client may take to send one request, body and all. Default 600000; it then gets a 408. */
  receiveTimeoutMs?: number;
  /** How long `close` lets requests in progress go on. Default 5000. */
  closeTimeoutMs?: number;
  /** Gets the service's log, an entry at a time. Default: nowhere. */
  log?: ServiceLog;
}

export interface RunningService {
  /** Base address, without a slash at its end. */
  url: string;
  /** The key that was given, or the one that was made. */
  apiKey: string;
  /** How many valid keys the data folder held at the start. */
  storedKeys: number;
  /**
   * Stops: new connections are refused, streams end, the running job goes back into the queue and runs again at
   * the next start. May be called more than once.
   */
  close(): Promise<void>;
}

const loopback = new Set(['127.0.0.1', '::1', 'localhost']);

/**
 * Starts the service over an engine.
 *
 * @throws ServiceError `key_required` for an address that others can reach while there is no key,
 * `data_folder_in_use` where another service works on the folder, `bad_option` for training data folders that are not
 * there, and the system's errors of listening.
 */
export async function startService(options: StartServiceOptions): Promise<RunningService> {
  const { engine, dataFolder, host = '127.0.0.1', port = 0 } = options;
  const { receiveTimeoutMs = 600_000, closeTimeoutMs = 5000 } = options;
  const trainingData = await resolveSources(options.trainingData);
  const reachable = !loopback.has(host) && !options.apiKey;
  // A start that is refused leaves nothing behind.
  const keys = reachable && !KeyStore.isIn(dataFolder) ? null : KeyStore.open(dataFolder);
  const storedKeys = keys?.countValid() ?? 0;
  if (keys === null || (reachable && storedKeys === 0)) {
    keys?.close();
    throw new ServiceError(
      500,
      'key_required',
      `The service listens on ${host}, which others can reach, only with an API key: give apiKey (or MARTINGALE_API_KEY), make one with "martingale keys create --data ${dataFolder}", or listen on 127.0.0.1.`,
    );
  }
  const apiKey = options.apiKey || createKey();
  const log = options.log ?? (() => {});
  const closing = new AbortController();
  const service = await openService({
    engine,
    dataFolder,
    apiKey,
    keys,
    trainingData,
    bodyLimits: { ...defaultBodyLimits, ...options.bodyLimits },
    defaultEntity: options.defaultEntity ?? 'local',
    priorityScheduling: options.priorityScheduling ?? false,
    log,
    closing: closing.signal,
  }).catch((error: unknown) => {
    keys.close();
    throw error;
  });
  let server: ServerType;
  try {
    server = await listen(createApp(service).fetch, { host, port, receiveTimeoutMs });
  } catch (error) {
    await service.store.close();
    keys.close();
    throw error;
  }
  service.queue.wake();
  const url = addressOf(server, host);
  log({ level: 'info', event: 'service_started', url });

  // Such as too many open files when a connection comes: the others go on.
  server.on('error', (error) => log({ level: 'error', event: 'server_error', error: error.message }));

  const close = async () => {
    closing.abort(new ServiceError(503, 'shutting_down', 'The service is shutting down.'));
    const closed = stopListening(server, closeTimeoutMs);
    await service.queue.close();
    await closed;
    await service.store.close();
    keys.close();
    log({ level: 'info', event: 'service_closed' });
  };
  let closed: Promise<void> | undefined;
  return {
    url,
    apiKey,
    storedKeys,
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}

function listen(
  fetch: (request: Request) => Response | Promise<Response>,
  { host, port, receiveTimeoutMs }: { host: string; port: number; receiveTimeoutMs: number },
): Promise<ServerType> {
  // Node counts the time from a request's first byte to its last; the answer may take as long as it does.
  const serverOptions = {
    requestTimeout: receiveTimeoutMs,
    connectionsCheckingInterval: Math.min(30_000, receiveTimeoutMs),
  };
  return new Promise((resolve, reject) => {
    const server = serve({ fetch, hostname: host, port, serverOptions }, () => {
      server.off('error', reject);
      resolve(server);
    });
    server.once('error', reject);
  });
}

/** Connections are kept alive between requests: they are closed as they fall idle, and all of them at the deadline. */
function stopListening(server: ServerType, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const closeIdle = () => {
      if ('closeIdleConnections' in server) server.closeIdleConnections();
    };
    const cut = setTimeout(() => {
      if ('closeAllConnections' in server) server.closeAllConnections();
    }, timeoutMs);
    const sweep = setInterval(closeIdle, 20);
    server.close(() => {
      clearTimeout(cut);
      clearInterval(sweep);
      resolve();
    });
    closeIdle();
  });
}

function addressOf(server: ServerType, host: string): string {
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new TypeError('the server has no address');
  return `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`;
}
