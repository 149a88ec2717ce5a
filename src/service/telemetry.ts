import { type Context as OpenContext, type Span, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import type { Context, MiddlewareHandler } from 'hono';
import { routePath } from 'hono/route';
import {
  activeTraceparent,
  attribute,
  errorType,
  genAi,
  http,
  linksTo,
  remoteContext,
  spanName,
  withSpan,
} from '../telemetry/index.ts';
import type { JobRecord, JobSuccess } from './store/store.ts';

/** A span per request, child of its `traceparent`. It lasts until the answer begins. */
export function traceRequests(): MiddlewareHandler {
  return (context, next) => {
    const { method, path } = context.req;
    const attributes = {
      [http.requestMethod]: method,
      [http.urlPath]: path,
      [http.urlScheme]: new URL(context.req.url).protocol.replace(':', ''),
    };
    return withSpan(
      method,
      attributes,
      async (span) => {
        await next();
        if (span.isRecording()) describeAnswer(span, context);
      },
      { kind: SpanKind.SERVER, parent: remoteContext(context.req.header()) },
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

/** The same for a streamed answer: the span lasts until the stream ends or is abandoned. */
export async function* traceStreamed<Item>(
  model: string,
  items: AsyncIterable<Item>,
  parent: OpenContext,
): AsyncGenerator<Item, void, undefined> {
  const ended = Promise.withResolvers<void>();
  withSpan(spanName.inference, { [genAi.requestModel]: model }, () => ended.promise, { parent }).catch(
    () => undefined,
  );
  try {
    yield* items;
  } catch (error) {
    ended.reject(error);
    throw error;
  } finally {
    ended.resolve();
  }
}

/** The span that a job's span links to: the client's if its `traceparent` names one, else the request's. */
export function submittedBy(context: Context): string | null {
  const given = context.req.header('traceparent') ?? null;
  return linksTo(given).length > 0 ? given : activeTraceparent();
}

/**
 * Runs a training job in its own span. The job outlives its request and may run after a restart, so the
 * span links to the request's span instead of being its child.
 */
export function traceJob(job: JobRecord, run: () => Promise<JobSuccess>): Promise<JobSuccess> {
  const attributes = {
    [attribute.jobId]: job.id,
    [attribute.jobKind]: job.kind,
    [attribute.modelId]: job.modelId,
  };
  return withSpan(
    spanName.trainingJob,
    attributes,
    async (span) => {
      const success = await run();
      span.setAttribute(attribute.policyVersion, success.checkpoint.step);
      return success;
    },
    { kind: SpanKind.CONSUMER, parent: remoteContext({}), links: linksTo(job.traceparent) },
  );
}
