import type { Context, Handler, Hono } from 'hono';
import { matchedRoutes } from 'hono/route';
import type { BlankEnv } from 'hono/types';
import type { Page, ValidationIssue } from '../../contract/index.ts';
import { accessOf, tenantOf } from '../access.ts';
import { contentOf, type ReceivedBody, receiveBody } from '../bodies/bodies.ts';
import { readBody } from '../bodies/body-pieces.ts';
import type { ServiceContext } from '../context.ts';
import { RequestValidationError, ServiceError } from '../errors.ts';
import type { RepeatableAnswer } from '../idempotency.ts';
import { jsonText } from '../json/read-text.ts';
import { type Operation, operations } from '../openapi/operations.ts';
import type { StoredPage } from '../store/store.ts';

/** Registers an operation's handler for its method and path. */
export type Register = (
  operation: Operation,
  // This path type lets a handler read any path parameter of the service.
  handler: Handler<BlankEnv, '/:model/:model_id/:job_id/:step'>,
) => void;

/** Registers handlers of operations. Each request's query is checked against its operation first. */
export function registrar(app: Hono): Register {
  return (operation, handler) => {
    const known = Object.keys(operation.query?.shape ?? {});
    const checked: typeof handler = (context, next) => {
      const issues = queryIssues(context.req.queries(), known);
      if (issues.length > 0) throw new RequestValidationError(issues);
      return handler(context, next);
    };
    app.on(operation.method.toUpperCase(), pathOf(operation), checked);
  };
}

/** The path in Hono's syntax. A model name contains slashes, which only some clients encode. */
const pathOf = ({ path }: Operation) =>
  path.replace(/\{(\w+)\}/g, (_, name) => (name === 'model' ? ':model{.+}' : `:${name}`));

/** Unknown query parameters are errors: a misspelt option must not silently become a default. */
function queryIssues(query: Record<string, string[]>, known: readonly string[]): ValidationIssue[] {
  return Object.entries(query).flatMap(([name, values]): ValidationIssue[] => {
    const loc = ['query', name];
    if (!known.includes(name)) {
      const allowed = known.length === 0 ? 'this path has none' : `this path has ${known.join(', ')}`;
      const msg = `Extra inputs are not permitted: unknown query parameter ${name}; ${allowed}`;
      return [{ loc, msg, type: 'extra_forbidden', input: values[0] }];
    }
    if (values.length === 1) return [];
    const msg = `${name} occurs ${values.length} times; send it once`;
    return [{ loc, msg, type: 'value_error', input: values }];
  });
}

/**
 * Answers all other methods of a path: OPTIONS with a 204, the rest with a 405, both with `Allow`. Call it
 * last.
 */
export function refuseOtherMethods(app: Hono): void {
  const all: Operation[] = Object.values(operations);
  for (const [path, methods] of Map.groupBy(all, pathOf)) {
    const own = methods.map(({ method }) => method.toUpperCase());
    const allowed = [...own, ...(own.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].join(', ');
    app.all(path, (context) => {
      const { method, path: requested } = context.req;
      context.header('allow', allowed);
      if (method === 'OPTIONS') return context.body(null, 204);
      throw new ServiceError(
        405,
        'method_not_allowed',
        `Method Not Allowed: ${requested} allows ${allowed}, not ${method}.`,
      );
    });
  }
}

/** Whether the request's path exists, with any method. */
export const isKnownPath = (context: Context): boolean =>
  matchedRoutes(context).some(({ path }) => !path.endsWith('*'));

/** Largest body, in bytes, for requests without trajectories or training data. */
const maxSmallBody = 4 * 1024 ** 2;

/** Reads a small JSON body. */
export async function readSmallJson(service: ServiceContext, context: Context): Promise<unknown> {
  const slots = service.admission.body(tenantOf(context));
  try {
    const limit = Math.min(maxSmallBody, service.bodyLimits.preview);
    return await readBody(context, jsonText, { limit, count: slots });
  } finally {
    slots.release();
  }
}

/** Reads the body of a POST under /v1/preview and answers it, once per Idempotency-Key. */
export function answerOnce(
  service: ServiceContext,
  context: Context,
  work: (content: Buffer, resourceId: string) => Promise<RepeatableAnswer>,
): Promise<Response> {
  const limit = Math.min(maxSmallBody, service.bodyLimits.preview);
  return answerBodyOnce(
    service,
    context,
    async (body, resourceId) => work(await contentOf(body), resourceId),
    limit,
  );
}

/** `answerOnce` for a body that may not fit into memory. */
export async function answerBodyOnce(
  service: ServiceContext,
  context: Context,
  work: (body: ReceivedBody, resourceId: string) => Promise<RepeatableAnswer>,
  limit = service.bodyLimits.preview,
): Promise<Response> {
  const slots = service.admission.body(tenantOf(context));
  try {
    return await receiveBody(service.files, context, { limit, count: slots }, async (body) => {
      const request = {
        key: context.req.header('idempotency-key'),
        fingerprint: body.fingerprint,
        access: accessOf(context),
      };
      const answer = await service.idempotency.run(request, (resourceId) => work(body, resourceId));
      return context.json(answer.body);
    });
  } finally {
    slots.release();
  }
}

export function toPage<Stored, Item extends { id: string }>(
  { items, hasMore }: StoredPage<Stored>,
  convert: (item: Stored) => Item,
): Page<Item> {
  const data = items.map(convert);
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? '',
    last_id: data.at(-1)?.id ?? '',
    has_more: hasMore,
  };
}
