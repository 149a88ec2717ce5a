import { z } from 'zod';
import * as contract from '../../contract/index.ts';
import { acceptedEncoding } from '../bodies/body-pieces.ts';
import { RequestValidationError, ServiceError } from '../errors.ts';
import { isOpenAiPath, toErrorBody } from '../faults.ts';
import { examples } from './examples.ts';
import type { Operation } from './operations.ts';
import { schemaOf } from './schemas.ts';

interface Failure {
  description: string;
  example: ServiceError;
  headers?: string[];
}

const retryAfter = 'Retry-After';
const acceptEncoding = 'Accept-Encoding';

const failures: Record<number, Failure> = {
  400: {
    description:
      "The connection closed before the end of the body, or the body is not the complete gzip data that its Content-Encoding declares. Chat completions: the prompt leaves no token of the model's context for a reply (code context_length_exceeded).",
    example: new ServiceError(400, 'body_cut', 'The connection closed before the end of the body.'),
  },
  401: {
    description: 'The API key is missing, wrong or revoked.',
    example: new ServiceError(
      401,
      'invalid_api_key',
      'The API key in the Authorization header is not valid.',
    ),
    headers: ['WWW-Authenticate'],
  },
  404: {
    description: 'Something that the path or the body names does not exist.',
    example: new ServiceError(404, 'model_not_found', 'The model "local/desk/nobody" does not exist.'),
  },
  408: {
    description: 'The client paused for too long while sending the body.',
    example: new ServiceError(408, 'body_stalled', 'The body paused for 60000 ms (stallTimeoutMs).'),
  },
  409: {
    description:
      'The request conflicts with the current state, or its Idempotency-Key was used with another request.',
    example: new ServiceError(
      409,
      'model_exists',
      'The model local/desk/agent exists already; send return_existing: true to get it.',
    ),
  },
  413: {
    description: 'The body exceeds the limit of the path. Gzip bodies count decompressed.',
    example: new ServiceError(
      413,
      'body_too_large',
      "The body exceeds this path's limit of 268435456 bytes.",
    ),
  },
  415: {
    description: 'The Content-Encoding of the body is not gzip.',
    example: new ServiceError(
      415,
      'unsupported_encoding',
      'The Content-Encoding "br" is not supported. Send the body as gzip, or uncompressed without Content-Encoding.',
    ),
    headers: [acceptEncoding],
  },
  422: {
    description:
      'A field, parameter or header is invalid or unknown, or the whole request cannot be served (`loc` is `request`, `type` says why): `detail` lists each problem.',
    example: new RequestValidationError([
      {
        loc: ['body', 'messages'],
        msg: 'Field required',
        type: 'missing',
        input: { model: 'local/desk/agent' },
      },
    ]),
  },
  429: {
    description: 'The service has reached one of its limits. Retry-After says when to retry.',
    example: new ServiceError(
      429,
      'too_many_requests',
      'This service has 20000 replies in flight, its limit (limits.replies). Send fewer requests at a time. Retry in 2 s.',
    ),
    headers: [retryAfter],
  },
  500: {
    description: "An error of the service. Its log has the details under the response's X-Request-Id.",
    example: new ServiceError(500, 'internal_error', 'Internal Server Error'),
  },
  503: {
    description:
      'The service cannot serve the request now: it is shutting down, its disk is full, or its engine failed. Retry-After says when to retry.',
    example: new ServiceError(503, 'shutting_down', 'The service is shutting down.'),
    headers: [retryAfter],
  },
};

const headerTexts: Record<string, object> = {
  [retryAfter]: { description: 'Seconds to wait.', schema: { type: 'integer', minimum: 0 }, example: 1 },
  [acceptEncoding]: {
    description: 'Accepted encodings.',
    schema: { type: 'string' },
    example: acceptedEncoding,
  },
  'WWW-Authenticate': { description: 'The expected scheme.', schema: { type: 'string' }, example: 'Bearer' },
};

/** Statuses of every operation, and of operations that read a body. */
const everywhere = [401, 422, 429, 500, 503];
const withBody = [400, 408, 413, 415];

/** The error responses of an operation: the common ones and its own. */
export function failuresOf(operation: Operation): Record<string, object> {
  const readsBody = operation.method === 'post' || operation.body !== undefined;
  const statuses = [...new Set([...everywhere, ...(readsBody ? withBody : []), ...(operation.errors ?? [])])];
  const inOrder = statuses.toSorted((one, other) => one - other);
  return Object.fromEntries(inOrder.map((status) => [status, describe(status, operation)]));
}

function describe(status: number, { path, answer }: Operation): object {
  const failure = failures[status];
  if (!failure) throw new TypeError(`the document does not describe status ${status}`);
  const { description, example, headers = [] } = failure;
  const content =
    status === 503 && path === '/v1/system-check'
      ? { schema: schemaOf(answer.schema ?? z.unknown()), example: failedSystemCheck }
      : {
          schema: schemaOf(status === 422 ? contract.validationErrorSchema : contract.errorSchema),
          example: toErrorBody(example, { openAi: isOpenAiPath(path) }),
        };
  return {
    description,
    ...(headers.length > 0 && {
      headers: Object.fromEntries(headers.map((name) => [name, headerTexts[name]])),
    }),
    content: { 'application/json': content },
  };
}

const failedSystemCheck = {
  ...examples.systemCheck,
  database: { success: false, duration: 3.1, error: 'disk I/O error' },
};
