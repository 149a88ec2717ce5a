import { z } from 'zod';
import * as contract from '../../contract/index.ts';
import { type Operation, operations } from './operations.ts';

const errorTexts: Record<number, string> = {
  400: 'Bad request',
  401: 'No key, or a wrong one',
  404: 'Not found',
  409: 'In conflict with what is there',
  413: 'Body too large',
  422: 'Validation Error',
  503: 'Something does not work just now; Retry-After says when to ask again',
};

let document: object | undefined;

/** The OpenAPI 3.1 document, from the operations above and the contract's schemas. */
export function openApiDocument(): object {
  document ??= makeDocument();
  return document;
}

function makeDocument(): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of operations) {
    const path = paths[operation.path] ?? {};
    path[operation.method] = describeOperation(operation);
    paths[operation.path] = path;
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'martingale',
      version: '1',
      description:
        'Training and inference service. null means absent in every request. Log-probabilities are those of the distribution that was sampled from: after temperature, cut-offs and grammar. Fields and values the service does not act on are refused with 422, by name. A seed beyond 2^53 is rounded by JSON parsers to the next number they can hold.',
    },
    security: [{ key: [] }],
    paths,
    components: {
      securitySchemes: { key: { type: 'http', scheme: 'bearer' } },
      schemas: componentSchemas(),
    },
  };
}

function describeOperation(operation: Operation): object {
  const { method, path, summary, tag, body, bodyType, response, stream, errors } = operation;
  const content = {
    'application/json': { schema: schemaOf(response) },
    ...(stream ? { 'text/event-stream': { schema: schemaOf(stream.schema) } } : {}),
  };
  const failures = [401, ...errors].map((status) => [
    status,
    {
      description: errorTexts[status],
      content: {
        'application/json': {
          schema: schemaOf(
            status === 422
              ? z.union([contract.validationErrorSchema, contract.errorSchema])
              : status === 503 && path === '/v1/system-check'
                ? response
                : contract.errorSchema,
          ),
        },
      },
    },
  ]);
  return {
    operationId: `${method}${path.replace(/[^a-z]+/gi, '_').replace(/_$/, path.endsWith('/') ? '_slash' : '')}`,
    summary,
    tags: [tag],
    parameters: parametersOf(operation),
    ...(body
      ? {
          requestBody: {
            required: true,
            content: { [bodyType ?? 'application/json']: { schema: schemaOf(body) } },
          },
        }
      : {}),
    responses: {
      200: {
        description: stream ? `Successful Response. ${stream.description}` : 'Successful Response',
        content,
      },
      ...Object.fromEntries(failures),
    },
  };
}

function parametersOf({ path, query, headers }: Operation): object[] {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  const inQuery = Object.entries(query?.shape ?? {}).map(([name, schema]) => ({
    name,
    in: 'query',
    required: false,
    schema: schemaOf(schema),
  }));
  const inHeader = (headers ?? []).map(({ name, description }) => ({
    name,
    in: 'header',
    required: false,
    description,
    schema: { type: 'string' },
  }));
  return [...inPath, ...inQuery, ...inHeader];
}

const reference = (id: string) => `#/components/schemas/${id}`;

/** A reference where the contract names the schema, else the schema itself, in which named ones are references. */
function schemaOf(schema: z.core.$ZodType): object {
  const id = z.globalRegistry.get(schema)?.id;
  if (id !== undefined) return { $ref: reference(id) };
  const { $schema: _, $defs: __, ...rest } = z.toJSONSchema(schema, { io: 'input' });
  return JSON.parse(JSON.stringify(rest).replaceAll('#/$defs/', '#/components/schemas/'));
}

function componentSchemas(): Record<string, object> {
  const named = z.registry<{ id: string }>();
  for (const schema of Object.values(contract))
    if (schema instanceof z.ZodType) {
      const id = z.globalRegistry.get(schema)?.id;
      if (id !== undefined) named.add(schema, { id });
    }
  const { schemas } = z.toJSONSchema(named, { io: 'input', uri: reference });
  return Object.fromEntries(
    Object.entries(schemas).map(([id, { $schema: _, $id: __, ...schema }]) => [id, schema]),
  );
}
