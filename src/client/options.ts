import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { parseBaseUrl, type ServiceAddress } from './base-url.ts';
import type { ClientOptions } from './client.ts';
import type { Dialect } from './dialect.ts';
import { ClientOptionError } from './errors.ts';
import { type ClientLimits, readLimits } from './limits.ts';
import type { RetryPolicy } from './retry.ts';

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
