import { constants } from 'node:buffer';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import type { Dialect } from './dialect.ts';
import { type ClientLimits, ClientOptionError } from './errors.ts';
import type { RetryPolicy } from './retry.ts';

/** Where a service is: an origin, and the path under which its `/v1/...` begins, `/v1` included. */
export interface ServiceAddress {
  origin: string;
  prefix: string;
}

/**
 * Reads a base address, given with or without `/v1` at its end.
 *
 * @throws ClientOptionError where it is no http or https address.
 */
export function parseBaseUrl(text: string, option: string): ServiceAddress {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    throw new ClientOptionError(
      `${option} is "${text}". Give an http or https address such as http://127.0.0.1:8080/v1.`,
    );
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new ClientOptionError(
      `${option} has a user, a query or a fragment. Give the address alone; the key goes into apiKey.`,
    );
  }
  const path = url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
  return { origin: url.origin, prefix: `${path}/v1` };
}

export interface ClientOptions {
  /** Address of the service, with or without `/v1` at its end. */
  baseUrl: string;
  /** Bearer key. */
  apiKey: string;
  /** `team/project`, sent with every call for usage tracking. Default: not sent. */
  project?: string | undefined;
  /** Address that lists the models for inference, where it is another. Default: `baseUrl`. */
  inferenceBaseUrl?: string | undefined;
  /** Names of fields and headers. Default `standard`. */
  dialect?: Dialect | undefined;
  /**
   * Deadline of one attempt of a call in milliseconds, from its start to the last byte of the answer. A call that is
   * repeated may take longer in all; its `signal` bounds that. Default 600000.
   */
  timeoutMs?: number | undefined;
  /** The same for reads, whose answers are small, and for one event of a job that has begun to come. Default: 60000, or `timeoutMs` where that is shorter. */
  readTimeoutMs?: number | undefined;
  /** Deadline of making a connection in milliseconds. Default 10000. */
  connectTimeoutMs?: number | undefined;
  /** How often a call is repeated where a repeat is harmless. Default 5. */
  retries?: number | undefined;
  /** Longest pause before the first repeat in milliseconds; it doubles with each, up to 30 s. Default 500. */
  backoffMs?: number | undefined;
  /**
   * For how long a service that has answered before, and is not reached or answers 502, 503 or 504, is waited for, in
   * milliseconds: calls that may be repeated are repeated until then, however often, at most 5 s apart. A warning of the
   * process tells of it. Default: 240 times `backoffMs`, which is 2 minutes where that is not given; 0 where `retries`
   * is 0.
   */
  awayMs?: number | undefined;
  /** How much is read of what a service sends. */
  limits?: Partial<ClientLimits> | undefined;
}

/** A client's options with their defaults filled in. */
export interface ReadOptions {
  address: ServiceAddress;
  inferenceAddress: ServiceAddress;
  dialect: Dialect;
  timeouts: { timeoutMs: number; readTimeoutMs: number; connectTimeoutMs: number };
  retry: RetryPolicy;
  limits: ClientLimits;
}

const clientNames = {
  baseUrl: true,
  apiKey: true,
  project: true,
  inferenceBaseUrl: true,
  dialect: true,
  timeoutMs: true,
  readTimeoutMs: true,
  connectTimeoutMs: true,
  retries: true,
  backoffMs: true,
  awayMs: true,
  limits: { answerBytes: true, eventBytes: true, errorBytes: true } satisfies OptionNames<ClientLimits>,
} satisfies OptionNames<ClientOptions>;

const longestReadMs = 60_000;
const visible = /^[\x21-\x7e]+$/;

/** @throws OptionError, and ClientOptionError where one cannot be. */
export function readOptions(options: ClientOptions): ReadOptions {
  checkOptionNames('createClient()', options, clientNames);
  const address = parseBaseUrl(options.baseUrl, 'baseUrl');
  if (!visible.test(options.apiKey))
    throw new ClientOptionError('apiKey is empty or has characters that no header can carry.');
  if (options.project !== undefined && !visible.test(options.project))
    throw new ClientOptionError(
      `project is "${options.project}". Give it as team/project, without spaces and in ASCII.`,
    );
  const dialect = options.dialect ?? 'standard';
  if (dialect !== 'standard' && dialect !== 'deployed')
    throw new ClientOptionError(`dialect is "${dialect}". Give "standard" or "deployed".`);
  const timeoutMs = positive(options, 'timeoutMs', 600_000);
  return {
    address,
    inferenceAddress:
      options.inferenceBaseUrl === undefined
        ? address
        : parseBaseUrl(options.inferenceBaseUrl, 'inferenceBaseUrl'),
    dialect,
    timeouts: {
      timeoutMs,
      readTimeoutMs: positive(options, 'readTimeoutMs', Math.min(timeoutMs, longestReadMs)),
      connectTimeoutMs: positive(options, 'connectTimeoutMs', 10_000),
    },
    retry: readRetry(options),
    limits: readLimits(options.limits),
  };
}

function readRetry(options: ClientOptions): RetryPolicy {
  const backoffMs = atLeastZero(options, 'backoffMs', 500);
  const retries = atLeastZero(options, 'retries', 5);
  return { retries, backoffMs, awayMs: atLeastZero(options, 'awayMs', retries > 0 ? 240 * backoffMs : 0) };
}

function positive(
  options: ClientOptions,
  name: 'timeoutMs' | 'readTimeoutMs' | 'connectTimeoutMs',
  otherwise: number,
): number {
  const value = options[name] ?? otherwise;
  if (value > 0) return value;
  throw new ClientOptionError(`${name} is ${value}. Give a time in milliseconds above 0.`);
}

function atLeastZero(
  options: ClientOptions,
  name: 'retries' | 'backoffMs' | 'awayMs',
  otherwise: number,
): number {
  const value = options[name] ?? otherwise;
  if (value >= 0) return value;
  throw new ClientOptionError(`${name} is ${value}. Give a number from 0 up.`);
}

const defaultLimits: ClientLimits = { answerBytes: 2 ** 28, eventBytes: 2 ** 26, errorBytes: 2 ** 20 };

/** As many bytes as are sure to fit into one text. */
const largestLimit = constants.MAX_STRING_LENGTH;

function readLimits(given: Partial<ClientLimits> = {}): ClientLimits {
  const read = (name: keyof ClientLimits): number => {
    const value = given[name] ?? defaultLimits[name];
    if (Number.isInteger(value) && value >= 1 && value <= largestLimit) return value;
    throw new ClientOptionError(
      `limits.${name} is ${value}. Give a whole number of bytes from 1 to ${largestLimit}, which is as long as a text can be.`,
    );
  };
  return { answerBytes: read('answerBytes'), eventBytes: read('eventBytes'), errorBytes: read('errorBytes') };
}
