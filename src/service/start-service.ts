import { namePartPattern } from '../contract/index.ts';
import type { Engine } from '../engines/engine.ts';
import { Admission } from './admission/admission.ts';
import { resolveLimits, type ServiceLimits } from './admission/limits.ts';
import { createApp } from './app.ts';
import { type BodyLimits, defaultBodyLimits } from './context.ts';
import { openKeys, refusedFolder } from './data-folder.ts';
import { ServiceError } from './errors.ts';
import { checkApiKey, createKey } from './keys.ts';
import type { ServiceLog } from './log.ts';
import { openService } from './open-service.ts';
import { keepClean } from './store/cleaning.ts';
import { KeyStore } from './store/key-store.ts';
import { resolveSources, type TrainingDataOptions } from './training-data/sources.ts';
import { Listening } from './wire/listening.ts';
import { Connections } from './wire/wire.ts';

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
  /**
   * How much the service takes in hand at once; what goes beyond is answered 429, with a `Retry-After` that follows
   * from how fast work ends. Default: 20,000 replies, 1 GiB of bodies, 1000 training jobs (and 1000 of one model),
   * 1000 event streams, 32 fetches of training data, 30,000 connections.
   */
  limits?: Partial<ServiceLimits>;
  /** Entity of models whose creator names none, and whose key is of none. Default "local". */
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
  /**
   * How long a client may send nothing of a body that is waited for, which then gets a 408, or take nothing of an
   * answer that waits for it, whose connection is then cut. Default 60000.
   */
  stallTimeoutMs?: number;
  /** How long `close` lets requests in progress go on; those that do not end get a 503. Default 5000. */
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

/** Timers of Node hold no more. */
const longestMs = 2 ** 31 - 1;

const loopback = new Set(['127.0.0.1', '::1', 'localhost']);

/**
 * Starts the service over an engine.
 *
 * @throws ServiceError `key_required` for an address that others can reach while there is no key,
 * `data_folder_in_use` where another service works on the folder, `bad_data_folder` where it cannot be, `storage_full`, `storage_read_only` and
 * `storage_failed` where nothing can be written to it, `bad_option` for training data folders that are not
 * there, for numbers that cannot be and for a key that no request could carry, and the system's errors of listening.
 */
export async function startService(options: StartServiceOptions): Promise<RunningService> {
  const { engine, dataFolder, host = '127.0.0.1', port = 0 } = options;
  const { receiveTimeoutMs = 600_000, closeTimeoutMs = 5000 } = options;
  const stallTimeoutMs = checkMilliseconds('stallTimeoutMs', options.stallTimeoutMs ?? 60_000);
  const bodyLimits = { ...defaultBodyLimits, ...options.bodyLimits };
  const largestBody = Math.max(bodyLimits.chat, bodyLimits.preview);
  const admission = new Admission(resolveLimits(options.limits, largestBody));
  const trainingData = await resolveSources(options.trainingData);
  const defaultEntity = checkEntity(options.defaultEntity ?? 'local');
  const givenKey = checkApiKey(options.apiKey);
  const reachable = !loopback.has(host) && !givenKey;
  // A start that is refused leaves nothing behind.
  const keys = reachable && !KeyStore.isIn(dataFolder) ? null : await openKeys(dataFolder);
  const storedKeys = keys?.countValid() ?? 0;
  if (keys === null || (reachable && storedKeys === 0)) {
    keys?.close();
    throw new ServiceError(
      500,
      'key_required',
      `The service listens on ${host}, which others can reach, only with an API key: give apiKey (or MARTINGALE_API_KEY), make one with "martingale keys create --data ${dataFolder}", or listen on 127.0.0.1.`,
    );
  }
  const apiKey = givenKey || createKey();
  const log = options.log ?? (() => {});
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
    throw await refusedFolder(error, dataFolder);
  });
  let listening: Listening;
  try {
    listening = await Listening.start({
      ...{ fetch: createApp(service).fetch, host, port, receiveTimeoutMs, stallTimeoutMs },
      ...{ largestBody, log },
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
    // Such as too many open files when a connection comes: the others go on.
    server.on('error', (error) => log({ level: 'error', event: 'server_error', error: error.message }));
  });

  const close = async () => {
    const reason = new ServiceError(503, 'shutting_down', 'The service is shutting down.');
    closing.abort(reason);
    const closed = listening.stop({ timeoutMs: closeTimeoutMs, reason });
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

function checkMilliseconds(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 1 && value <= longestMs) return value;
  throw new ServiceError(
    500,
    'bad_option',
    `${name} is ${String(value)}; give whole milliseconds from 1 to ${longestMs}.`,
  );
}

function checkEntity(entity: string): string {
  if (namePartPattern.test(entity)) return entity;
  throw new ServiceError(
    500,
    'bad_option',
    `defaultEntity: ${JSON.stringify(entity)} is no name of an entity; it is 1 to 128 letters, digits, dots, underscores or hyphens, and begins with a letter or digit.`,
  );
}
