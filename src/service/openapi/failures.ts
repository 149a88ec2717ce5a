import { z } from 'zod';
import * as contract from '../../contract/index.ts';
import { acceptedEncoding } from '../bodies/body-pieces.ts';
import { isOpenAiPath } from '../error-response.ts';
import { examples } from './examples.ts';
import type { Operation } from './operations.ts';
import { schemaOf } from './schemas.ts';

interface Failure {
  description: string;
  /** Example message, and the example `type` and `code` for OpenAI clients. */
  detail: string;
  type: string;
  code: string;
  headers?: string[];
}

const retryAfter = 'Retry-After';
const acceptEncoding = 'Accept-Encoding';

const failures: Record<number, Failure> = {
  400: {
    description:
      "The connection closed before the end of the body, or the body is not complete gzip data, as its Content-Encoding declares. Of a chat completion also: the prompt leaves no room for a reply in the model's context (code context_length_exceeded).",
    ...{ detail: 'The connection broke before the body was whole.' },
    ...{ type: 'invalid_request_error', code: 'body_cut' },
  },
  401: {
    description: 'No key, a wrong one, or one that was revoked.',
    ...{ detail: 'The API key in the Authorization header is not valid here, or no longer.' },
    ...{ type: 'authentication_error', code: 'invalid_api_key', headers: ['WWW-Authenticate'] },
  },
  404: {
    description: 'What the path or the body names is not there.',
    ...{ detail: 'The model "local/desk/nobody" does not exist: there is no model of this name.' },
    ...{ type: 'not_found_error', code: 'model_not_found' },
  },
  408: {
    description: 'Nothing of the body came for too long.',
    ...{ detail: 'Nothing of the body came for 60000 ms (stallTimeoutMs); send it without such pauses.' },
    ...{ type: 'invalid_request_error', code: 'body_stalled' },
  },
  409: {
    description: 'In conflict with what is there, or an Idempotency-Key that another request has used.',
    ...{ detail: 'The model local/desk/agent exists already; send return_existing: true to get it.' },
    ...{ type: 'invalid_request_error', code: 'model_exists' },
  },
  413: {
    description: 'The body, decompressed where it comes as gzip, is larger than the service takes.',
    ...{ detail: "The body exceeds this path's limit of 268435456 bytes." },
    ...{ type: 'invalid_request_error', code: 'body_too_large' },
  },
  415: {
    description: 'The Content-Encoding of the body is another than gzip.',
    detail:
      'The Content-Encoding "br" is not supported. Send the body as gzip, or uncompressed without Content-Encoding.',
    ...{ type: 'invalid_request_error', code: 'unsupported_encoding', headers: [acceptEncoding] },
  },
  422: {
    description:
      'A field, a parameter or a header that is wrong, or that this service does not have: a list with an item for each. Where the whole body is at fault, a text.',
    ...{ detail: '' },
    ...{ type: 'invalid_request_error', code: 'invalid_request' },
  },
  429: {
    description: 'There is no room for it just now. Retry-After says when to ask again.',
    detail:
      'As many replies are asked for as this service takes in hand at once (20000, limits.replies; one key holds at most 16 times what is free); send fewer at a time.',
    ...{ type: 'rate_limit_error', code: 'too_many_requests', headers: [retryAfter] },
  },
  500: {
    description: "The service's own fault; its log says more, under the answer's X-Request-Id.",
    ...{ detail: 'Internal Server Error' },
    ...{ type: 'server_error', code: 'internal_error' },
  },
  503: {
    description:
      'It does not work just now: the service shuts down, its disk is full, its engine broke down. Retry-After says when to ask again.',
    ...{ detail: 'The service is shutting down.' },
    ...{ type: 'server_error', code: 'shutting_down', headers: [retryAfter] },
  },
};

const issues = [
  {
    loc: ['body', 'messages'],
    msg: 'Field required',
    type: 'missing',
    input: { model: 'local/desk/agent' },
  },
];

const headerTexts: Record<string, object> = {
  [retryAfter]: { description: 'Seconds to wait.', schema: { type: 'integer', minimum: 0 }, example: 1 },
  [acceptEncoding]: { description: 'What is taken.', schema: { type: 'string' }, example: acceptedEncoding },
  'WWW-Authenticate': { description: 'What is asked for.', schema: { type: 'string' }, example: 'Bearer' },
};

/** Statuses of every operation, and of operations that read a body. */
const everywhere = [401, 422, 429, 500, 503];
const withBody = [400, 408, 413, 415];

/** The error responses of an operation: the common ones and its own. */
export function failuresOf(operation: Operation): Record<string, object> {
  const readsBody = operation.method === 'post' || operation.body !== undefined;
  const statuses = [...new Set([...everywhere, ...(readsBody ? withBody : []), ...operation.errors])];
  const inOrder = statuses.toSorted((one, other) => one - other);
  return Object.fromEntries(inOrder.map((status) => [status, describe(status, operation)]));
}

function describe(status: number, { path, answer }: Operation): object {
  const failure = failures[status];
  if (!failure) throw new TypeError(`the document has no words for status ${status}`);
  const { description, headers = [] } = failure;
  const content =
    status === 503 && path === '/v1/system-check'
      ? { schema: schemaOf(answer.schema ?? z.unknown()), example: failedSystemCheck }
      : { schema: errorSchema(status), example: errorBody(status, failure, isOpenAiPath(path)) };
  return {
    description,
    ...(headers.length === 0
      ? {}
      : { headers: Object.fromEntries(headers.map((name) => [name, headerTexts[name]])) }),
    content: { 'application/json': content },
  };
}

const errorSchema = (status: number) =>
  schemaOf(
    status === 422 ? z.union([contract.validationErrorSchema, contract.errorSchema]) : contract.errorSchema,
  );

const failedSystemCheck = {
  ...examples.systemCheck,
  database: { success: false, duration: 3.1, error: 'disk I/O error' },
};

function errorBody(status: number, { detail, type, code }: Failure, openAi: boolean): object {
  const body = { detail: status === 422 ? issues : detail };
  if (!openAi) return body;
  const message = status === 422 ? 'body.messages: Field required' : detail;
  return { ...body, error: { message, type, param: status === 422 ? 'messages' : null, code } };
}
