import { type ServerType, serve } from '@hono/node-server';
import type { Engine } from '../engines/engine.ts';
import { createApp } from './app.ts';
import { type BodyLimits, defaultBodyLimits } from './context.ts';
import { ServiceError } from './errors.ts';
import { createKey } from './keys.ts';
import type { ServiceLog } from './log.ts';
import { openService } from './open-service.ts';

export interface StartServiceOptions {
  /** What samples and trains. The service does not close it: whoever made it does. */
  engine: Engine;
  /** Folder of everything the service keeps. Made where it is not there; one service at a time may use it. */
  dataFolder: string;
  /** The bearer key of every request. Default: a random one, returned. */
  apiKey?: string;
  /** Address to listen on. Default 127.0.0.1; anything but loopback needs an `apiKey` given here. */
  host?: string;
  /** Default 0: any free port. */
  port?: number;
  /** Largest bodies in bytes. Default: 16 MiB for chat completions, 256 MiB under /v1/preview. */
  bodyLimits?: Partial<BodyLimits>;
  /** Entity of models whose creator names none. Default "local". */
  defaultEntity?: string;
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
  apiKey: string;
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
 * @throws ServiceError `key_required` for an address that others can reach without a key given,
 * `data_folder_in_use` where another service works on the folder, and the system's errors of listening.
 */
export async function startService(options: StartServiceOptions): Promise<RunningService> {
  const { engine, dataFolder, host = '127.0.0.1', port = 0 } = options;
  const { receiveTimeoutMs = 600_000, closeTimeoutMs = 5000 } = options;
  if (!loopback.has(host) && !options.apiKey)
    throw new ServiceError(
      500,
      'key_required',
      `The service listens on ${host}, which others can reach, only with an API key of your own: give apiKey (or MARTINGALE_API_KEY), or listen on 127.0.0.1.`,
    );
  const apiKey = options.apiKey || createKey();
  const log = options.log ?? (() => {});
  const closing = new AbortController();
  const service = await openService({
    engine,
    dataFolder,
    apiKey,
    bodyLimits: { ...defaultBodyLimits, ...options.bodyLimits },
    defaultEntity: options.defaultEntity ?? 'local',
    log,
    closing: closing.signal,
  });
  let server: ServerType;
  try {
    server = await listen(createApp(service).fetch, { host, port, receiveTimeoutMs });
  } catch (error) {
    await service.store.close();
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
    log({ level: 'info', event: 'service_closed' });
  };
  let closed: Promise<void> | undefined;
  return {
    url,
    apiKey,
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
