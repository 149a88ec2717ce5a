import type { Context } from 'hono';
import { projectHeader, projectHeaderAlias } from '../contract/index.ts';
import type { ServiceLog } from './log.ts';

export const requestIdHeader = 'x-request-id';

export const longestRequestId = 128;
/** What a client's own id of a request has to look like. */
export const requestIdPattern = /^[A-Za-z0-9_.-]{1,128}$/;

/** The id under which the answer, and the log, know a request. */
export function requestIdOf(context: Context): string | null {
  return context.res.headers.get(requestIdHeader);
}

/** `<team>/<project>`, in what a header can hold. */
export const projectPattern = /^[!-.0-~]{1,128}[/][!-.0-~]{1,128}$/;
export const longestProject = 257;

/** Characters of an ignored project that the log shows. */
const longestShownProject = 256;

/** Ignored projects that the log warns of; clients choose them, and the log is not theirs to fill. */
const mostIgnoredProjects = 100;

/** What the project headers of a request say. */
export interface GivenProject {
  /** Whom the request counts for, as `<team>/<project>`; null where no header says so. */
  project: string | null;
  /** A value that counts for nothing: of another form, such as the `proj_...` of the OpenAI clients, or a second one. */
  ignored: string | null;
}

/** Of two projects the one of `Compat-Project`, the interface's own name, counts. */
export function givenProject(headers: Headers): GivenProject {
  const given = [projectHeader, projectHeaderAlias].map((name) => headers.get(name)).filter(Boolean);
  const project = given.find((value) => value !== null && projectPattern.test(value)) ?? null;
  const ignored = given.find((value) => value !== project) ?? null;
  return { project, ignored: ignored?.slice(0, longestShownProject) ?? null };
}

/** Warns of each project that is ignored once, so that an operator who expects it in the log learns why it is not. */
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
