import type { Context, Handler, Hono } from 'hono';
import { matchedRoutes } from 'hono/route';
import type { BlankEnv } from 'hono/types';
import type { ValidationIssue } from '../../contract/index.ts';
import { RequestValidationError, ServiceError } from '../errors.ts';
import { type Operation, operations } from '../openapi/operations.ts';

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
      const takes = known.length === 0 ? 'this path takes none' : `this path takes ${known.join(', ')}`;
      const msg = `Extra inputs are not permitted: ${name} is no query parameter here; ${takes}`;
      return [{ loc, msg, type: 'extra_forbidden', input: values[0] }];
    }
    if (values.length === 1) return [];
    const msg = `${name} stands ${values.length} times; give it once`;
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
      const { method, path: asked } = context.req;
      context.header('allow', allowed);
      if (method === 'OPTIONS') return context.body(null, 204);
      throw new ServiceError(
        405,
        'method_not_allowed',
        `Method Not Allowed: ${asked} takes ${allowed}, not ${method}.`,
      );
    });
  }
}

/** Whether the request's path exists, with any method. */
export const isKnownPath = (context: Context): boolean =>
  matchedRoutes(context).some(({ path }) => !path.endsWith('*'));
