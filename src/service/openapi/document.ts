import { maxRequestId, requestIdPattern } from '../telemetry.ts';
import { failuresOf } from './failures.ts';
import { type Operation, operations } from './operations.ts';
import { parametersOf, sharedParameters } from './parameters.ts';
import { componentSchemas, schemaOf } from './schemas.ts';

const description = `Training and inference service.

Where the interface is open, this service behaves as follows:

- In every request, \`null\` means absent.
- Unsupported fields, query parameters and values are refused with a 422 that names them.
- Every path requires a key: \`Authorization: Bearer <API_KEY>\`. Wrong and revoked keys get the same 401. A key of one entity creates models of that entity only; resources of other entities do not exist for it.
- A known path answers other methods with 405 and \`Allow\`, OPTIONS with 204 and \`Allow\`, and HEAD like GET without a body. Unknown paths are 404. There is no CORS: pages of other origins cannot read answers.
- In a 422, \`detail\` is a list of \`loc\` (names of fields and positions in arrays, as texts), \`msg\`, \`type\`, \`input\` and \`ctx\`. In other errors it is a text. An \`error\` object is added on the chat-completions paths, /v1/models and unknown paths, and on every path for 405 and 503.
- A 503 has \`Retry-After\`. A request that is not complete in time, or that pauses for too long, gets a 408.
- The path decides how a body is read, not \`Content-Type\`. Default limits are 16 MiB for chat completions, 256 MiB for trajectories and training data, and 4 MiB elsewhere. \`Content-Encoding: gzip\` is decompressed while it is received, and the limit counts decompressed bytes; other encodings are 415.
- Sizes are bounded by \`maxLength\` (in UTF-16 code units), \`maxItems\` and \`maxProperties\`. Bounds above 1024 also exist, but are not in this document: some tools generate values of the maximum size. A longer value is a 422.
- Lists are read in pages: \`after\` is the \`last_id\` of the previous page.
- Log-probabilities belong to the distribution that was sampled from: after penalties, biases, grammar, temperature and cut-offs.
- A seed beyond 2^53 is read with all its digits; JSON writers such as JavaScript's round it.
- Every answer has \`X-Request-Id\`.`;

let document: object | undefined;

/** The OpenAPI 3.1 document, built from the table of operations and the contract's schemas. */
export function openApiDocument(): object {
  document ??= buildDocument();
  return document;
}

function buildDocument(): object {
  const all: Operation[] = Object.values(operations);
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of all)
    paths[operation.path] = { ...paths[operation.path], [operation.method]: describeOperation(operation) };
  return {
    openapi: '3.1.0',
    info: { title: 'martingale', version: '1', description },
    servers: [{ url: '/', description: 'The origin of this document.' }],
    tags: [
      { name: 'inference', description: 'Sampling from models.' },
      { name: 'models', description: 'Models and their checkpoints.' },
      { name: 'training', description: 'Training jobs, their data and their events.' },
      { name: 'service', description: 'The service itself.' },
    ],
    security: [{ key: [] }],
    paths,
    components: {
      securitySchemes: {
        key: {
          type: 'http',
          scheme: 'bearer',
          description:
            'A key of the operator: from `martingale keys create`, for all entities or with `--entity` for one, or MARTINGALE_API_KEY.',
        },
      },
      headers: {
        RequestId: {
          description: 'Id of the request, as in the log.',
          schema: { type: 'string', pattern: requestIdPattern.source, maxLength: maxRequestId },
        },
      },
      parameters: sharedParameters,
      schemas: componentSchemas(all.flatMap(({ body }) => (body ? [body.schema] : []))),
    },
  };
}

const requestId = { 'X-Request-Id': { $ref: '#/components/headers/RequestId' } };

function describeOperation(operation: Operation): object {
  const { method, path, summary, tag, body, answer } = operation;
  const { stream } = answer;
  return {
    operationId: `${method}${path.replace(/[^a-z]+/gi, '_').replace(/_$/, path.endsWith('/') ? '_slash' : '')}`,
    summary,
    description: operation.description,
    tags: [tag],
    parameters: parametersOf(operation),
    ...(body ? { requestBody: describeBody(body) } : {}),
    responses: {
      200: {
        description: stream ? `Successful Response. ${stream.description}` : 'Successful Response',
        headers: answer.schema ? requestId : { ...requestId, ...fileHeaders },
        content: describeAnswer(answer),
      },
      ...failuresOf(operation),
    },
  };
}

function describeBody({ schema, example, type, required = true }: NonNullable<Operation['body']>): object {
  return { required, content: { [type ?? 'application/json']: { schema: schemaOf(schema), example } } };
}

function describeAnswer({ schema, example, stream }: Operation['answer']): object {
  if (!schema) return { 'application/octet-stream': {} };
  return {
    'application/json': { schema: schemaOf(schema), example },
    ...(stream ? { 'text/event-stream': { schema: schemaOf(stream.schema), example: stream.example } } : {}),
  };
}

const fileHeaders = {
  'Content-Disposition': {
    description: 'The name of the file.',
    schema: { type: 'string' },
    example: 'attachment; filename="agent-step1.safetensors"',
  },
  'Content-Length': { description: 'The size in bytes.', schema: { type: 'integer' }, example: 3456789 },
};
