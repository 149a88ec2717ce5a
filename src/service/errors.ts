import type { ValidationIssue } from '../contract/index.ts';
import { MartingaleError } from '../contract/index.ts';
import { bodyPath, type LanguageError } from '../language/basics.ts';
import { isLarger } from '../util/json.ts';
import { showValue } from '../util/show-value.ts';

export type ErrorStatus = 400 | 401 | 404 | 405 | 408 | 409 | 413 | 415 | 422 | 429 | 500 | 503;

/** An error for the caller: its message is sent in the response unchanged. */
export class ServiceError extends MartingaleError {
  readonly status: ErrorStatus;

  constructor(status: ErrorStatus, code: string, message: string, options?: ErrorOptions) {
    super(code, message, options);
    this.status = status;
  }
}

/** Most issues in one answer. */
export const maxIssues = 100;

const omission = '…';

/** Placeholders for a text, list or object that is not shown. */
export const omitted = { text: omission, list: [omission], object: { [omission]: omission } } as const;

/** Shortens an issue for the answer: the request values that it quotes may be megabytes. */
function shownIssue({ loc, msg, type, ctx = {}, input }: ValidationIssue): ValidationIssue {
  return {
    loc: loc.map((part) => truncate(part, 200)),
    msg: truncate(msg, 2000),
    type,
    ctx,
    input: shownInput(input),
  };
}

/** A quoted value: the beginning of a long text, a placeholder for a long list or object. */
function shownInput(value: unknown): unknown {
  const maxLength = 1000;
  if (typeof value === 'string') return truncate(value, maxLength);
  if (typeof value !== 'object' || value === null) return value ?? null;
  let shown = shownObjects.get(value);
  if (shown === undefined) {
    // Counted first, because the JSON of a large value may take a tenth of a second.
    const isLong =
      isLarger(value, maxLength, (text) => text.length) || JSON.stringify(value).length > maxLength;
    shown = !isLong ? value : Array.isArray(value) ? omitted.list : omitted.object;
    shownObjects.set(value, shown);
  }
  return shown;
}

/** Cached, because a hundred issues may quote the same value. */
const shownObjects = new WeakMap<object, object>();

const truncate = (text: string, length: number) =>
  text.length > length ? `${text.slice(0, length)}${omission}` : text;

/** A request that is malformed or invalid, with up to a hundred issues. Status 422. */
export class RequestValidationError extends ServiceError {
  readonly issues: ValidationIssue[];

  constructor(issues: ValidationIssue[], options?: ErrorOptions) {
    const shown = issues.slice(0, maxIssues).map(shownIssue);
    const [first] = shown;
    const message = first ? `${first.loc.join('.')}: ${first.msg}` : 'The request is invalid.';
    super(422, 'invalid_request', message, options);
    this.issues = shown;
  }
}

const languageStatus: Readonly<Record<string, ErrorStatus>> = {
  context_length_exceeded: 400,
  templates_busy: 503,
  texts_busy: 503,
  templates_unavailable: 503,
};

/** The error for messages, a template or a constraint that cannot be turned into tokens. */
export function fromLanguage(cause: LanguageError): ServiceError {
  const { issue, code, message } = cause;
  return issue
    ? new RequestValidationError([issue], { cause })
    : new ServiceError(languageStatus[code] ?? 422, code, message, { cause });
}

/** The error for an option of `startService` or of a command. */
export const badOption = (message: string, cause?: unknown) =>
  new ServiceError(500, 'bad_option', message, { cause });

export const notFound = (what: string, id: string) =>
  new ServiceError(
    404,
    `${what}_not_found`,
    `There is no ${what.replaceAll('_', ' ')} ${JSON.stringify(id)}.`,
  );

/** Most characters of a path that an error shows. */
const shownPathLength = 200;

export function noSuchPath(path: string): ServiceError {
  const shown = path.length > shownPathLength ? `${path.slice(0, shownPathLength)}…` : path;
  return new ServiceError(404, 'no_such_path', `Not Found: there is no path ${shown}. ${remedyOf(path)}`);
}

/** Whether Anthropic's clients call the path. They add /v1 to a base URL that has it already. */
export const isMessagesPath = (path: string): boolean => /^\/v1\/(v1\/)?messages(\/|$)/.test(path);

/** What clients of other interfaces, or with another base URL, do instead. */
function remedyOf(path: string): string {
  if (/^\/(v1\/v1\/)?(chat\/completions|models)(\/|$)/.test(path))
    return "The base URL of OpenAI's clients must end in /v1, once.";
  if (path.startsWith('/api/'))
    return "This is an address of Ollama's own interface. Take a client of OpenAI's, with a base URL that ends in /v1.";
  const [, called] = /^\/v1\/(?:v1\/)?(responses|messages|completions)(\/|$)/.exec(path) ?? [];
  if (!called) return 'GET /v1/openapi.json lists the paths.';
  const chat = 'This service speaks chat completions: call POST /v1/chat/completions.';
  return called === 'completions'
    ? chat
    : `${chat} An agent that needs the Responses API or Anthropic's Messages gets them from the harness, by \`model.endpoint()\`.`;
}

/** A well-formed field with an unacceptable value, `input`. */
export const invalidField = (loc: (string | number)[], message: string, input: unknown) =>
  new RequestValidationError([{ loc: bodyPath(loc), msg: message, type: 'value_error', input }]);

/** A field that this service does not support. Nothing unsupported is silently ignored. */
export const unsupportedField = (loc: (string | number)[], input: unknown, reason?: string) =>
  new RequestValidationError([
    {
      loc: bodyPath(loc),
      msg: reason ?? `${loc.join('.')} is not supported by this service; leave it out or send null`,
      type: 'unsupported_field',
      input,
    },
  ]);

/** Records may come from somebody else: no value of them that the service did not write is taken, or leads anywhere. */
export const damagedRecord = (what: string, value: unknown) =>
  new ServiceError(
    500,
    'data_folder_damaged',
    `A record of the data folder has ${showValue(value)} as ${what}, which the service did not write. Nothing there is touched.`,
  );

export { messageOf } from '../util/error.ts';

/** A page was asked for after an item that is not in the list. */
export function unknownCursor(after: string, loc = ['query', 'after']): RequestValidationError {
  const msg = `no item of this list has this id (it may have been deleted); start again without ${loc.at(-1)}`;
  return new RequestValidationError([{ loc, msg, type: 'value_error', input: after }]);
}
