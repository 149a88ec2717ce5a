import type { MiddlewareHandler } from 'hono';
import { projectHeader, projectHeaderAlias, type ValidationIssue } from '../contract/index.ts';
import { RequestValidationError, ServiceError } from './errors.ts';
import type { ServiceLog } from './log.ts';
import { findOperation, methodsOf } from './openapi/known-paths.ts';

export const projectPattern = /^[^/\s]{1,128}\/[^/\s]{1,128}$/;

/** Characters of an ignored project that the log shows. */
const longestShownProject = 256;

/** Ignored projects that the log warns of; clients choose them, and the log is not theirs to fill. */
const mostIgnoredProjects = 100;

/**
 * Holds what comes before the body against the interface: the method, the query's names, the project header. What
 * the interface does not have is refused by name, so that a misspelt option does not turn into a silent default. A
 * project of another form is ignored: OpenAI clients send the one that their environment names with every request.
 */
export function checkForm({ log }: { log: ServiceLog }): MiddlewareHandler {
  const ignoredProjects = new IgnoredProjects(log);
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

/** What the project headers of a request say. */
export interface GivenProject {
  /** Whom the request counts for, as `<team>/<project>`; null where no header says so. */
  project: string | null;
  /** The value of a header of another form, such as the `proj_...` of the OpenAI clients: it counts for nothing. */
  ignored: string | null;
}

export function givenProject(headers: Headers): GivenProject {
  const values = projectHeaders(headers).map(({ value }) => value);
  const ignored = values.find((value) => !projectPattern.test(value));
  return {
    project: values.find((value) => projectPattern.test(value)) ?? null,
    ignored: ignored?.slice(0, longestShownProject) ?? null,
  };
}

const projectHeaders = (headers: Headers) =>
  [projectHeader, projectHeaderAlias].flatMap((name) => {
    const value = headers.get(name);
    return value === null || value === '' ? [] : [{ name, value }];
  });

function projectIssues(headers: Headers): ValidationIssue[] {
  const [first, second] = projectHeaders(headers).filter(({ value }) => projectPattern.test(value));
  if (!first || !second || first.value === second.value) return [];
  return [
    {
      loc: ['header', second.name],
      type: 'value_error',
      input: second.value,
      msg: `${second.name} is another name of ${first.name}, which says ${JSON.stringify(first.value)}; send one of them`,
    },
  ];
}

/** Warns of each project that is ignored once, so that an operator who expects it in the log learns why it is not. */
class IgnoredProjects {
  readonly #log: ServiceLog;
  readonly #known = new Set<string>();

  constructor(log: ServiceLog) {
    this.#log = log;
  }

  note(project: string): void {
    if (this.#known.has(project) || this.#known.size >= mostIgnoredProjects) return;
    this.#known.add(project);
    this.#log({
      level: 'warn',
      event: 'project_ignored',
      project,
      reason:
        'A project header has the form <team>/<project>; requests with this one are served without a project.',
    });
  }
}
