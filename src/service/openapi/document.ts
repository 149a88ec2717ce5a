import { maxRequestId, requestIdPattern } from '../telemetry.ts';
import { failuresOf } from './failures.ts';
import { type Operation, operations } from './operations.ts';
import { parametersOf, sharedParameters } from './parameters.ts';
import { componentSchemas, schemaOf } from './schemas.ts';

const description = `Training and inference service.

What the interface leaves open, this service decides so:

- \`null\` means absent in every request.
- Fields, query parameters and values the service does not act on are refused with 422, by name.
- Every path needs a key: \`Authorization: Bearer <API_KEY>\`. A wrong key and a revoked one are the same 401. A key of one entity makes models of that entity alone, and what belongs to another is answered as if it did not exist.
- A path that is there answers another method with 405 and \`Allow\`; OPTIONS with 204 and \`Allow\`; HEAD as GET, without a body. A path that is not there is 404. Pages of other origins are not served (no CORS).
- A 422 has a list in \`detail\`: \`loc\` (names of fields as text, places in arrays as integers), \`msg\`, \`type\`, \`input\`, and \`ctx\` where there is something to show. Other errors have a text there. On the chat-completions paths, /v1/models and paths that are not there, and with 405 and 503 on every path, \`error\` stands beside it.
- 503 carries \`Retry-After\`. A request that is not sent to its end in time, or of whose body nothing comes for too long, gets 408.
- A body is read as its path says, whatever \`Content-Type\` says; it may have 16 MiB on the chat-completions paths, 256 MiB where it brings trajectories or training data, and 4 MiB elsewhere, unless the operator chose otherwise. With \`Content-Encoding: gzip\` it is decompressed as it comes, and counts as it is then; other encodings are 415.
- Bounds of size are \`maxLength\` (in UTF-16 code units), \`maxItems\` and \`maxProperties\`, and above 1024 \`x-maxLength\`, \`x-maxItems\` and \`x-maxProperties\`, so that tools which make values of a schema do not make them as long. Both are kept in the same way: a longer value is a 422.
- Lists are read in pages: \`after\` is the \`last_id\` of the page before.
- Log-probabilities are those of the distribution that was sampled from: after penalties, biases, grammar, temperature and cut-offs.
- A seed beyond 2^53 is read digit by digit; JSON writers that know no such numbers, as those of JavaScript, round it.
- Every answer carries \`X-Request-Id\`.`;

let document: object | undefined;

/** The OpenAPI 3.1 document, built from the table of operations and the contract's schemas. */
export function openApiDocument(): object {
  document ??= makeDocument();
  return document;
}

function makeDocument(): object {
  const all: Operation[] = Object.values(operations);
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of all)
    paths[operation.path] = { ...paths[operation.path], [operation.method]: describeOperation(operation) };
  return {
    openapi: '3.1.0',
    info: { title: 'martingale', version: '1', description },
    servers: [{ url: '/', description: 'Where this document came from.' }],
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
          ...{ type: 'http', scheme: 'bearer' },
          description:
            'A key that the operator made: `martingale keys create`, for all or with `--entity` for one entity, or MARTINGALE_API_KEY.',
        },
      },
      headers: {
        RequestId: {
          description: 'Id of the request, as the log has it.',
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
  'Content-Length': { description: 'Its size in bytes.', schema: { type: 'integer' }, example: 3456789 },
};
