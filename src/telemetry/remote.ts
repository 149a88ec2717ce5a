import { type Context, context, type Link, propagation, ROOT_CONTEXT, trace } from '@opentelemetry/api';

/** W3C Trace Context, version 00: https://www.w3.org/TR/trace-context/#traceparent-header. */
const form = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;

/** The context that a request's headers bring; the root where they bring none, or no SDK reads them. */
export function remoteContext(headers: Record<string, string>): Context {
  return propagation.extract(ROOT_CONTEXT, headers);
}

/** The `traceparent` of the active span; null where there is none. */
export function activeTraceparent(): string | null {
  const span = trace.getSpanContext(context.active());
  if (!span || !trace.isSpanContextValid(span)) return null;
  const flags = span.traceFlags.toString(16).padStart(2, '0');
  return `00-${span.traceId}-${span.spanId}-${flags}`;
}

/** A link to the span that a `traceparent` names; none where it is null or malformed. */
export function linksTo(traceparent: string | null): Link[] {
  const [, traceId, spanId, flags] = form.exec(traceparent ?? '') ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return [];
  return [{ context: { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true } }];
}
