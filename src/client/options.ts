import { constants } from 'node:buffer';
import {
  chatFieldAliases,
  configFieldAliases,
  projectHeader,
  projectHeaderAlias,
} from '../contract/index.ts';
import { invalidOption, OptionError } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames, objectOf } from '../util/option-names.ts';
import type { ClientLimits } from './errors.ts';

/** The address of a service: its origin, and the path prefix including `/v1`. */
export interface ServiceAddress {
  origin: string;
  prefix: string;
}

/** Error messages never show the value of `apiKey`. */
const invalid = (option: string, value: unknown, remedy: string): OptionError =>
  invalidOption('invalid_client_option', option, value, remedy);

/** Parses a base URL with or without `/v1` at its end. */
function parseBaseUrl(text: string, option: string): ServiceAddress {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    throw invalid(option, text, 'Pass an http or https address such as http://127.0.0.1:8080/v1.');
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '')
    throw new OptionError(
      'invalid_client_option',
      `\`${option}\` has a user, a query or a fragment. Pass the address alone, and the key as \`apiKey\`.`,
      { option },
    );
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

const clientNames = {
  baseUrl: true,
  apiKey: 'text',
  project: 'text',
  inferenceBaseUrl: true,
  dialect: true,
  timeoutMs: 'numeric',
  readTimeoutMs: 'numeric',
  connectTimeoutMs: 'numeric',
  retries: 'numeric',
  backoffMs: 'numeric',
  awayMs: 'numeric',
  limits: objectOf({
    answerBytes: true,
    eventBytes: true,
    errorBytes: true,
  } satisfies OptionNames<ClientLimits>),
} satisfies OptionNames<ClientOptions>;

const maxReadMs = 60_000;
const visible = /^[\x21-\x7e]+$/;

/** The header that carries the key cannot have these characters; the message does not show them. */
export function checkHeader(option: string, text: string, allowed = visible): void {
  if (allowed.test(text)) return;
  const message = `\`${option}\` is empty or has characters that a header cannot carry.`;
  throw new OptionError('invalid_client_option', message, { option });
}

/** The client's options with defaults. @throws OptionError */
export function readOptions(options: ClientOptions) {
  checkOptionNames('createClient()', options, clientNames);
  const { baseUrl, apiKey, project, inferenceBaseUrl, dialect = 'standard', limits = {} } = options;
  const address = parseBaseUrl(baseUrl, 'baseUrl');
  checkHeader('apiKey', apiKey);
  if (project !== undefined && !visible.test(project))
    throw invalid('project', project, 'Pass team/project, in ASCII and without spaces.');
  if (dialect !== 'standard' && dialect !== 'deployed')
    throw invalid('dialect', dialect, 'Pass "standard" or "deployed".');
  const number = (name: NumberOption, otherwise: number, min: number): number => {
    const value = options[name] ?? otherwise;
    if (value >= min) return value;
    throw invalid(
      name,
      value,
      min > 0 ? 'Pass a time in milliseconds above 0.' : 'Pass a number of at least 0.',
    );
  };
  const bytes = (name: keyof ClientLimits, otherwise: number): number => {
    const value = limits[name] ?? otherwise;
    if (Number.isInteger(value) && value >= 1 && value <= maxLimit) return value;
    const remedy = `Pass a whole number of bytes from 1 to ${maxLimit}, the maximum length of a string.`;
    throw invalid(`limits.${name}`, value, remedy);
  };
  const timeoutMs = number('timeoutMs', 600_000, Number.MIN_VALUE);
  const backoffMs = number('backoffMs', 500, 0);
  const retries = number('retries', 5, 0);
  return {
    address,
    inferenceAddress:
      inferenceBaseUrl === undefined ? address : parseBaseUrl(inferenceBaseUrl, 'inferenceBaseUrl'),
    dialect,
    timeoutMs,
    readTimeoutMs: number('readTimeoutMs', Math.min(timeoutMs, maxReadMs), Number.MIN_VALUE),
    connectTimeoutMs: number('connectTimeoutMs', 10_000, Number.MIN_VALUE),
    retry: { retries, backoffMs, awayMs: number('awayMs', retries > 0 ? 240 * backoffMs : 0, 0) },
    limits: {
      answerBytes: bytes('answerBytes', 2 ** 28),
      eventBytes: bytes('eventBytes', 2 ** 26),
      errorBytes: bytes('errorBytes', 2 ** 20),
    },
  };
}

type NumberOption = 'timeoutMs' | 'readTimeoutMs' | 'connectTimeoutMs' | 'retries' | 'backoffMs' | 'awayMs';

/** Maximum number of bytes that always fit in one string. */
const maxLimit = constants.MAX_STRING_LENGTH;

/**
 * `standard`: the interface's own names, for services that support `Idempotency-Key`. `deployed`: the vendor's names for
 * the same fields, for the public service. It may not support idempotency keys, so POSTs are retried only if the service
 * cannot have acted on the first attempt.
 */
export type Dialect = 'standard' | 'deployed';

export const projectHeaderOf = (dialect: Dialect): string =>
  dialect === 'deployed' ? projectHeaderAlias : projectHeader;

/** A chat request with the dialect's field names. */
export function chatBody<Body extends object>(dialect: Dialect, body: Body): object {
  return dialect === 'deployed' ? rename(body, chatFieldAliases) : body;
}

/** The config of an RL job with the dialect's field names. */
export function configBody(dialect: Dialect, config: object | null | undefined): object | null | undefined {
  return dialect === 'deployed' && config ? rename(config, configFieldAliases) : config;
}

function rename(body: object, aliases: Record<string, string>): object {
  const ours = new Map(Object.entries(aliases).map(([alias, name]) => [name, alias]));
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [ours.get(name) ?? name, value]));
}
