import { projectHeader, projectHeaderAlias, type ValidationIssue } from '../contract/index.ts';
import type { ServiceLog } from './log.ts';

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

export function projectIssues(headers: Headers): ValidationIssue[] {
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
        'A project header has the form <team>/<project>; requests with this one are served without a project.',
    });
  }
}
