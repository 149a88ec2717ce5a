import {
  type Attributes,
  type Context,
  context,
  type Link,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanOptions,
  SpanStatusCode,
  type TextMapGetter,
  trace,
} from '@opentelemetry/api';
import { MartingaleError } from '../contract/basics.ts';
import type { ChatCompletionRequest, Choice } from '../contract/index.ts';
import { messageOf } from '../util/error.ts';
import { martingaleVersion } from '../util/version.ts';
import { errorType, genAi } from './names.ts';

/** Name of the tracer and the meter. */
export const instrumentationName = 'martingale';

interface SpanContextOptions extends Pick<SpanOptions, 'kind' | 'links'> {
  /** Context with the parent span. Default: the active context. */
  parent?: Context;
}

/**
 * Runs `run` in a span, the parent of every span that starts in it, also after an `await`. The span ends when `run`
 * returns or its promise settles. An error is recorded, sets the status to error and `error.type` to its code or class,
 * and is thrown again. Without an OpenTelemetry SDK in the application, `withSpan` only calls `run`.
 *
 * @param attributes Attributes known at the start. Add later ones with `span.setAttribute`.
 */
export function withSpan<Result>(
  name: string,
  attributes: Attributes,
  run: (span: Span) => Result,
  { parent = context.active(), ...options }: SpanContextOptions = {},
): Result {
  // Look up the tracer at each call: an SDK may be registered after this module is loaded.
  return trace
    .getTracer(instrumentationName, martingaleVersion)
    .startActiveSpan(name, { attributes, ...options }, parent, (span) => {
      if (!span.isRecording()) return run(span);
      return observeEnd(
        () => run(span),
        (failure) => {
          if (failure) fail(span, failure.error);
          span.end();
        },
      );
    });
}

/**
 * Calls `onEnd` once `run` has returned or thrown, or its promise has settled. The caller gets the original promise, not
 * the one of `then`.
 */
export function observeEnd<Result>(
  run: () => Result,
  onEnd: (failure: { error: unknown } | null, value?: unknown) => void,
): Result {
  let result: Result;
  try {
    result = run();
  } catch (error) {
    onEnd({ error });
    throw error;
  }
  if (result instanceof Promise)
    result.then(
      (value) => onEnd(null, value),
      (error: unknown) => onEnd({ error }),
    );
  else onEnd(null, result);
  return result;
}

function fail(span: Span, error: unknown): void {
  const message = messageOf(error);
  span.recordException(error instanceof Error ? error : message);
  span.setAttribute(errorType, errorKind(error));
  span.setStatus({ code: SpanStatusCode.ERROR, message });
}

/** The value of `error.type`: the error's code or class. */
export function errorKind(error: unknown): string {
  if (MartingaleError.isInstance(error)) return error.code;
  return error instanceof Error ? error.name : '_OTHER';
}

/** W3C Trace Context, version 00: https://www.w3.org/TR/trace-context/#traceparent-header. */
const traceparentPattern = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;

/** The trace context of a request's headers; the root context without headers, a context or an SDK. */
export function remoteContext(headers: Headers | null): Context {
  return headers === null ? ROOT_CONTEXT : propagation.extract(ROOT_CONTEXT, headers, headerGetter);
}

/** Reads only the headers that a propagator asks for. */
const headerGetter: TextMapGetter<Headers> = {
  get: (headers, name) => headers.get(name) ?? undefined,
  keys: (headers) => [...headers.keys()],
};

/** The `traceparent` of the active span; null without one. */
export function activeTraceparent(): string | null {
  const span = trace.getSpanContext(context.active());
  if (!span || !trace.isSpanContextValid(span)) return null;
  const flags = span.traceFlags.toString(16).padStart(2, '0');
  return `00-${span.traceId}-${span.spanId}-${flags}`;
}

/** A link to the span of a `traceparent`; empty if it is null or malformed. */
export function linksTo(traceparent: string | null): Link[] {
  const [, traceId, spanId, flags] = traceparentPattern.exec(traceparent ?? '') ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return [];
  return [{ context: { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true } }];
}

/** Environment variable that turns `captureContent` on if it is `true` at the start of the process. */
const captureContentVariable = 'MARTINGALE_CAPTURE_CONTENT';

let capturing = process.env[captureContentVariable] === 'true';

/**
 * Whether spans of model calls carry the conversation (`gen_ai.input.messages`, `gen_ai.output.messages`). Off by
 * default: prompts and replies may hold what must not reach a tracing backend. `MARTINGALE_CAPTURE_CONTENT=true` in
 * the environment turns it on too.
 */
export function captureContent(on = true): void {
  capturing = on;
}

type RequestMessage = ChatCompletionRequest['messages'][number];

/** A call's messages and reply in the format of the conventions; empty without `captureContent`. */
export function contentAttributes(
  messages: ChatCompletionRequest['messages'],
  { message, finish_reason }: Pick<Choice, 'message' | 'finish_reason'>,
): Attributes {
  if (!capturing) return {};
  return {
    [genAi.inputMessages]: JSON.stringify(messages.map(toMessage)),
    [genAi.outputMessages]: JSON.stringify([{ ...toMessage(message), finish_reason }]),
  };
}

function toMessage(message: RequestMessage | Choice['message']) {
  const { role, content } = message;
  const calls = 'tool_calls' in message ? (message.tool_calls ?? []) : [];
  const answeredId = 'tool_call_id' in message ? message.tool_call_id : undefined;
  const text = typeof content === 'string' ? content : content == null ? null : JSON.stringify(content);
  const parts: object[] = calls.map(({ id, function: { name, arguments: input } }) => ({
    type: 'tool_call',
    id,
    name,
    arguments: input,
  }));
  if (answeredId) parts.unshift({ type: 'tool_call_response', id: answeredId, response: text });
  else if (text !== null) parts.unshift({ type: 'text', content: text });
  return { role, parts };
}
