import type { MiddlewareHandler } from 'hono';
import type { ValidationIssue } from '../contract/index.ts';
import { RequestValidationError, ServiceError } from './errors.ts';
import type { ServiceLog } from './log.ts';
import { findOperation, methodsOf } from './openapi/known-paths.ts';
import { givenProject, IgnoredProjects } from './request-headers.ts';

/**
 * Holds what comes before the body against the interface: the method, the query's names. What the interface
 * does not have is refused by name, so that a misspelt option does not turn into a silent default. A project of
 * another form is ignored: OpenAI clients send the one that their environment names with every request.
 */
export function checkForm({ log }: { log: ServiceLog }): MiddlewareHandler {
  const ignoredProjects = new IgnoredProjects(log);
  return async (context, next) => {
    const { method, path } = context.req;
    const operation = findOperation(method, path);
    if (operation) {
      const known = Object.keys(operation.query?.shape ?? {});
      const issues = queryIssues(context.req.queries(), known);
      if (issues.length > 0) throw new RequestValidationError(issues);
      const { ignored } = givenProject(context.req.raw.headers);
      if (ignored !== null) ignoredProjects.note(ignored);
      return next();
    }
    const methods = methodsOf(path);
    if (methods.length === 0) return next();
    context.header('allow', methods.join(', '));
    if (method === 'OPTIONS') return context.body(null, 204);
    throw new ServiceError(
      405,
      'method_not_allowed',
      `Method Not Allowed: ${path} takes ${methods.join(', ')}, not ${method}.`,
    );
  };
}

function queryIssues(query: Record<string, string[]>, known: readonly string[]): ValidationIssue[] {
  return Object.entries(query).flatMap(([name, values]): ValidationIssue[] => {
    const loc = ['query', name];
    if (!known.includes(name)) {
      const takes = known.length === 0 ? 'this path takes none' : `this path takes ${known.join(', ')}`;
      return [
        {
          ...{ loc, type: 'extra_forbidden', input: values[0] },
          msg: `Extra inputs are not permitted: ${name} is no query parameter here; ${takes}`,
        },
      ];
    }
    if (values.length === 1) return [];
    return [
      { loc, type: 'value_error', input: values, msg: `${name} stands ${values.length} times; give it once` },
    ];
  });
}
