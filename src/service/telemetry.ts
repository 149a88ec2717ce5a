import { type Context as OpenContext, type Span, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import type { Context, MiddlewareHandler } from 'hono';
import { routePath } from 'hono/route';
import { projectHeader, projectHeaderAlias } from '../contract/index.ts';
import {
  activeTraceparent,
  errorType,
  genAi,
  http,
  linksTo,
  remoteContext,
  spanName,
  withSpan,
} from '../telemetry/index.ts';

/** One line of the service's log. It never contains keys or bodies. */
export interface LogEntry {
  level: 'info' | 'warn' | 'error';
  /** What happened, in snake case. */
  event: string;
  [detail: string]: string | number | boolean | null;
}

export type ServiceLog = (entry: LogEntry) => void;

export const requestIdHeader = 'x-request-id';

export const maxRequestId = 128;
/** The format of a client's own request id. */
export const requestIdPattern = /^[A-Za-z0-9_.-]{1,128}$/;

/** `<team>/<project>`, in printable ASCII. */
export const projectPattern = /^[!-.0-~]{1,128}[/][!-.0-~]{1,128}$/;
export const maxProject = 257;

/**
 * The project that a request counts for, as `<team>/<project>`; null without such a header. `Compat-Project`
 * precedes `OpenAI-Project`. `ignoredProject`: a header of another form, such as `proj_...` of OpenAI
 * clients, or a second project.
 */
export function projectOf(headers: Headers): { project: string | null; ignoredProject?: string } {
  const sent = [projectHeader, projectHeaderAlias].map((name) => headers.get(name)).filter((value) => value);
  const project = sent.find((value) => value !== null && projectPattern.test(value)) ?? null;
  const ignored = sent.find((value) => value !== project);
  return ignored ? { project, ignoredProject: ignored.slice(0, 256) } : { project };
}

/** A span per request, child of its `traceparent`. It lasts until the answer begins. */
export function traceRequests(): MiddlewareHandler {
  return (context, next) => {
    const { method, path } = context.req;
    const attributes = {
      [http.requestMethod]: method,
      [http.urlPath]: path,
      [http.urlScheme]: context.req.url.slice(0, context.req.url.indexOf(':')),
    };
    return withSpan(
      method,
      attributes,
      async (span) => {
        await next();
        if (span.isRecording()) describeAnswer(span, context);
      },
      { kind: SpanKind.SERVER, parent: remoteContext(context.req.raw.headers) },
    );
  };
}

function describeAnswer(span: Span, context: Context): void {
  const { status } = context.res;
  const route = routePath(context, -1);
  // Without a matching route, only the middleware's own pattern is known.
  if (!route.endsWith('*')) {
    span.updateName(`${context.req.method} ${route}`);
    span.setAttribute(http.route, route);
  }
  span.setAttribute(http.statusCode, status);
  if (status < 500) return;
  span.setAttribute(errorType, String(status));
  span.setStatus({ code: SpanStatusCode.ERROR });
}

/** Runs the sampling of a request in its own span. */
export function traceInference<Result>(model: string, run: () => Promise<Result>): Promise<Result> {
  return withSpan(spanName.inference, { [genAi.requestModel]: model }, run);
}

/** `traceInference` for a streamed answer: the span lasts until what is returned is resolved or rejected. */
export function traceStreamed(model: string, parent: OpenContext): PromiseWithResolvers<void> {
  const ended = Promise.withResolvers<void>();
  withSpan(spanName.inference, { [genAi.requestModel]: model }, () => ended.promise, { parent }).catch(
    () => undefined,
  );
  return ended;
}

/** The span that a job's span links to: the client's if its `traceparent` names one, else the request's. */
export function submittedBy(context: Context): string | null {
  const sent = context.req.header('traceparent') ?? null;
  return linksTo(sent).length > 0 ? sent : activeTraceparent();
}
