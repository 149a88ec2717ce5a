import { constants } from 'node:buffer';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import type { Dialect } from './dialect.ts';
import { type ClientLimits, ClientOptionError } from './errors.ts';
import type { RetryPolicy } from './retry.ts';

/** The address of a service: its origin, and the path prefix including `/v1`. */
export interface ServiceAddress {
  origin: string;
  prefix: string;
}

/**
 * Parses a base URL with or without `/v1` at its end.
 *
 * @throws ClientOptionError if it is not an http or https URL.
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
  /** Base URL of the service, with or without `/v1` at its end. */
  baseUrl: string;
  /** Bearer key. */
  apiKey: string;
  /** `team/project`, sent with every call for usage tracking. Default: not sent. */
  project?: string | undefined;
  /** Base URL that lists the models for inference, if it is different. Default: `baseUrl`. */
  inferenceBaseUrl?: string | undefined;
  /** Names of fields and headers. Default `standard`. */
  dialect?: Dialect | undefined;
  /**
   * Deadline of one attempt of a call in milliseconds, from its start to the last byte of the answer. With retries a
   * call may take longer; use its `signal` to limit that. Default 600000.
   */
  timeoutMs?: number | undefined;
  /**
   * Deadline of one attempt of a read in milliseconds, and of one event of a job from its first byte to its last.
   * Default: 60000, or `timeoutMs` if that is shorter.
   */
  readTimeoutMs?: number | undefined;
  /** Deadline for connecting, in milliseconds. Default 10000. */
  connectTimeoutMs?: number | undefined;
  /** Maximum number of retries of a call, where a retry is safe. Default 5. */
  retries?: number | undefined;
  /** Maximum pause before the first retry in milliseconds. It doubles with each retry, up to 30 s. Default 500. */
  backoffMs?: number | undefined;
  /**
   * How long to wait for a service that answered before and is now unreachable or answers 502, 503 or 504, in
   * milliseconds. Until then, calls that are safe to retry are retried without a maximum number, at most 5 s apart, and
   * a process warning is emitted. Default: 240 times `backoffMs`, which is 2 minutes by default; 0 if `retries` is 0.
   */
  awayMs?: number | undefined;
  /** Limits on the size of answers. */
  limits?: Partial<ClientLimits> | undefined;
}

/** The client's options with defaults. */
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

/** @throws OptionError for an unknown option; ClientOptionError for an invalid one. */
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

/** Maximum number of bytes that always fit in one string. */
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
