import { randomBytes } from 'node:crypto';
import type { Engine } from '../engines/engine.ts';
import { checkOptionNames, type OptionNames, objectOf } from '../util/option-names.ts';
import { isLoopback } from '../util/server-access.ts';
import { checkEntity } from './access.ts';
import { Admission } from './admission/admission.ts';
import { limitNames, resolveLimits, type ServiceLimits } from './admission/service-limits.ts';
import { createApp } from './app.ts';
import { type BodyLimits, defaultBodyLimits } from './bodies/bodies.ts';
import { badOption, ServiceError } from './errors.ts';
import { Connections } from './http/exchange.ts';
import { Listening } from './http/listening.ts';
import { folderError, openKeys, openService } from './open-service.ts';
import { keepClean } from './store/cleaning.ts';
import { KeyStore } from './store/key-store.ts';
import type { ServiceLog } from './telemetry.ts';
import { resolveSources, type TrainingDataOptions } from './training-data/sources.ts';

export interface StartServiceOptions {
  /** Samples and trains. The caller closes it, not the service. */
  engine: Engine;
  /** Folder for everything the service stores. Created if missing; only one service at a time may use it. */
  dataFolder: string;
  /**
   * A key that requests may send as their bearer token, besides those created in the data folder with
   * `martingale keys create`. Default: a random key, which is returned.
   */
  apiKey?: string;
  /**
   * Address to listen on. Default 127.0.0.1; any address but loopback needs an `apiKey` or a key in the
   * data folder.
   */
  host?: string;
  /** Port to listen on. Default 0: any free port. */
  port?: number;
  /** Largest bodies in bytes. Default: 16 MiB for chat completions, 256 MiB under /v1/preview. */
  bodyLimits?: Partial<BodyLimits>;
  /**
   * How much the service accepts at once. Requests beyond a limit get a 429 with a `Retry-After` that
   * follows the pace of work. Default: 20,000 replies, 1 GiB of bodies, 1000 training jobs (256 per
   * model), 1000 event streams, 32 fetches of training data, 30,000 connections.
   */
  limits?: Partial<ServiceLimits>;
  /** Entity of models created without one, by keys without one. Default "local". */
  defaultEntity?: string;
  /**
   * Whether chat requests may have a `priority`: waiting requests with lower values go first. Default
   * false, which refuses values other than 0, since any key's owner could overtake the others.
   */
  priorityScheduling?: boolean;
  /** Where `training_data_url` may point besides uploads. Default: nowhere. */
  trainingData?: TrainingDataOptions;
  /**
   * How long a client may take to send a whole request, in milliseconds; then it gets a 408. Default
   * 600000.
   */
  receiveTimeoutMs?: number;
  /**
   * How long a client may pause while sending a body (then it gets a 408) or while reading an answer (then
   * its connection is cut), in milliseconds. Default 60000.
   */
  stallTimeoutMs?: number;
  /** How long `close` waits for requests in progress, in milliseconds; then they get a 503. Default 5000. */
  closeTimeoutMs?: number;
  /** Gets each entry of the service's log. Default: not logged. */
  log?: ServiceLog;
}

const optionNames = {
  engine: 'engine',
  dataFolder: 'path',
  apiKey: 'text',
  host: 'text',
  port: 'port',
  bodyLimits: objectOf({ chat: 'count', preview: 'count' } satisfies OptionNames<BodyLimits>),
  limits: objectOf(limitNames),
  defaultEntity: 'text',
  priorityScheduling: [true, false],
  trainingData: objectOf({
    folders: 'list',
    hosts: 'list',
    timeoutMs: 'count',
  } satisfies OptionNames<TrainingDataOptions>),
  receiveTimeoutMs: 'count',
  stallTimeoutMs: true,
  closeTimeoutMs: 'amount',
  log: 'function',
} satisfies OptionNames<StartServiceOptions>;

export interface RunningService {
  /** Base address without a trailing slash. */
  url: string;
  /** The passed key, or the generated one. */
  apiKey: string;
  /** Number of valid keys in the data folder at the start. */
  storedKeys: number;
  /**
   * Stops the service: it refuses new connections, ends streams and puts the running job back into the
   * queue, to run again at the next start. Further calls return the same promise.
   */
  close(): Promise<void>;
}

/**
 * Starts the service with an engine.
 *
 * @throws OptionError (`unknown_option`, `invalid_option`), or ServiceError
 * - `key_required`: the address is reachable for others and there is no key;
 * - `data_folder_in_use`: another service uses the folder;
 * - `bad_data_folder`: the folder cannot be created;
 * - `data_folder_too_new`, `data_folder_too_old`: another version of martingale wrote the folder;
 * - `storage_full`, `storage_read_only`, `storage_failed`: the folder cannot be written;
 * - `bad_option`: a training data folder that does not exist, an invalid number, or an invalid key.
 *
 * If it cannot listen, it throws the system's error.
 */
export async function startService(options: StartServiceOptions): Promise<RunningService> {
  checkOptionNames('startService()', options, optionNames);
  const { engine, dataFolder, host = '127.0.0.1', port = 0, log = () => {} } = options;
  const { receiveTimeoutMs = 600_000, stallTimeoutMs = 60_000, closeTimeoutMs = 5000 } = options;
  // The longest timer of Node.
  if (!Number.isSafeInteger(stallTimeoutMs) || stallTimeoutMs < 1 || stallTimeoutMs >= 2 ** 31)
    throw badOption(`stallTimeoutMs is ${stallTimeoutMs}. Pass whole milliseconds from 1 to ${2 ** 31 - 1}.`);
  const bodyLimits = { ...defaultBodyLimits, ...options.bodyLimits };
  const maxBody = Math.max(bodyLimits.chat, bodyLimits.preview);
  const admission = new Admission(resolveLimits(options.limits, maxBody));
  const trainingData = await resolveSources(options.trainingData);
  const defaultEntity = checkEntity(options.defaultEntity ?? 'local');
  const ownKey = checkApiKey(options.apiKey);
  const isReachable = !isLoopback(host) && !ownKey;
  // A refused start must not create the folder.
  const keys = isReachable && !KeyStore.isIn(dataFolder) ? null : await openKeys(dataFolder);
  const storedKeys = keys?.countValid() ?? 0;
  if (keys === null || (isReachable && storedKeys === 0)) {
    keys?.close();
    throw new ServiceError(
      500,
      'key_required',
      `Listening on ${host}, which other machines can reach, requires an API key: pass apiKey (or MARTINGALE_API_KEY), create one with "martingale keys create --data ${dataFolder}", or listen on 127.0.0.1.`,
    );
  }
  const apiKey = ownKey || `mg-${randomBytes(32).toString('base64url')}`;
  const closing = new AbortController();
  const service = await openService({
    engine,
    dataFolder,
    apiKey,
    keys,
    trainingData,
    bodyLimits,
    admission,
    connections: new Connections(admission.limits.connections),
    defaultEntity,
    priorityScheduling: options.priorityScheduling ?? false,
    log,
    closing: closing.signal,
  }).catch(async (error: unknown) => {
    keys.close();
    throw await folderError(error, dataFolder);
  });
  let listening: Listening;
  try {
    listening = await Listening.start({
      fetch: createApp(service).fetch,
      host,
      port,
      receiveTimeoutMs,
      stallTimeoutMs,
      log,
    });
  } catch (error) {
    await service.store.close();
    keys.close();
    throw error;
  }
  const { url } = listening;
  service.queue.wake();
  keepClean(service);
  log({ level: 'info', event: 'service_started', url });

  listening.watch((server) => {
    service.connections.watch(server);
    // An example is a new connection with too many open files. The other connections continue.
    server.on('error', (error) => log({ level: 'error', event: 'server_error', error: error.message }));
  });

  const close = async () => {
    const reason = new ServiceError(503, 'shutting_down', 'The service is shutting down.');
    closing.abort(reason);
    const closed = listening.stop({ timeoutMs: closeTimeoutMs, reason });
    await service.queue.close();
    await closed;
    await service.groupPacker.close();
    await service.store.close();
    keys.close();
    log({ level: 'info', event: 'service_closed' });
  };
  let closed: Promise<void> | undefined;
  return { url, apiKey, storedKeys, close: () => (closed ??= close()) };
}

/** Checks that a request header can carry the key. The error does not show it. */
function checkApiKey(apiKey: string | undefined): string | undefined {
  if (!apiKey || /^[\x21-\x7e]+$/.test(apiKey)) return apiKey;
  throw badOption(
    'apiKey (MARTINGALE_API_KEY of `serve`) must consist of printable ASCII characters without spaces. Check for a trailing line break.',
  );
}
