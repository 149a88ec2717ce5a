import type { MiddlewareHandler } from 'hono';
import { projectHeader, projectHeaderAlias, type ValidationIssue } from '../contract/index.ts';
import { RequestValidationError, ServiceError } from './errors.ts';
import { findOperation, methodsOf } from './openapi/known-paths.ts';

const projectPattern = /^[^/\s]{1,128}\/[^/\s]{1,128}$/;

/**
 * Holds what comes before the body against the interface: the method, the query's names, the project header. What
 * the interface does not have is refused by name, so that a misspelt option does not turn into a silent default.
 */
export function checkForm(): MiddlewareHandler {
  return async (context, next) => {
    const { method, path } = context.req;
    const operation = findOperation(method, path);
    if (operation) {
      const known = Object.keys(operation.query?.shape ?? {});
      const issues = [
        ...queryIssues(context.req.queries(), known),
        ...projectIssues(context.req.raw.headers),
      ];
      if (issues.length > 0) throw new RequestValidationError(issues);
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

/** Whom the request counts for, as `team/project`; null where it does not say, or not in this form. */
export function projectOf(headers: Headers): string | null {
  const project = headers.get(projectHeader) ?? headers.get(projectHeaderAlias);
  return project !== null && projectPattern.test(project) ? project : null;
}

function projectIssues(headers: Headers): ValidationIssue[] {
  const given = [projectHeader, projectHeaderAlias].flatMap((name) => {
    const value = headers.get(name);
    return value === null ? [] : [{ name, value }];
  });
  const [first, second] = given;
  if (first && second && first.value !== second.value)
    return [
      {
        ...{ loc: ['header', second.name], type: 'value_error', input: second.value },
        msg: `${second.name} is another name of ${first.name}, which says ${JSON.stringify(first.value)}; send one of them`,
      },
    ];
  return given
    .filter(({ value }) => !projectPattern.test(value))
    .map(({ name, value }) => ({
      ...{ loc: ['header', name], type: 'string_pattern_mismatch', input: value },
      msg: `${name} must have the form <team>/<project>; leave it out if there is none`,
      ctx: { pattern: projectPattern.source },
    }));
}
