import type { Context } from 'hono';
import { projectHeader, projectHeaderAlias } from '../contract/index.ts';
import type { ServiceLog } from './log.ts';

export const requestIdHeader = 'x-request-id';

export const longestRequestId = 128;
/** The format of a client's own request id. */
export const requestIdPattern = /^[A-Za-z0-9_.-]{1,128}$/;

/** The request's id, as the answer and the log show it. */
export function requestIdOf(context: Context): string | null {
  return context.res.headers.get(requestIdHeader);
}

/** `<team>/<project>`, in printable ASCII. */
export const projectPattern = /^[!-.0-~]{1,128}[/][!-.0-~]{1,128}$/;
export const longestProject = 257;

const longestShownProject = 256;

/** How many ignored projects are logged. Clients choose the names and must not fill the log. */
const mostIgnoredProjects = 100;

/** The project headers of a request. */
export interface GivenProject {
  /** The project that the request counts for, as `<team>/<project>`; null without such a header. */
  project: string | null;
  /**
   * A header value that is ignored: of another form, such as `proj_...` of OpenAI clients, or a second
   * project.
   */
  ignored: string | null;
}

/**
 * Reads the project headers. Of two projects, that of `Compat-Project`, the interface's own header,
 * counts.
 */
export function givenProject(headers: Headers): GivenProject {
  const given = [projectHeader, projectHeaderAlias].map((name) => headers.get(name)).filter(Boolean);
  const project = given.find((value) => value !== null && projectPattern.test(value)) ?? null;
  const ignored = given.find((value) => value !== project) ?? null;
  return { project, ignored: ignored?.slice(0, longestShownProject) ?? null };
}

/** Warns once per ignored project, so that the operator learns why it is missing from the log. */
export class IgnoredProjects {
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
        'Requests count for one project, which a header names as <team>/<project>; this one counts for nothing.',
    });
  }
}
