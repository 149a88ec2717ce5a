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
  trace,
} from '@opentelemetry/api';
import { type ChatCompletionRequest, type Choice, MartingaleError } from '../contract/index.ts';
import { martingaleVersion } from '../util/version.ts';
import { errorType, genAi } from './names.ts';

/** Name under which an application's SDK sees our spans. */
export const instrumentationName = 'martingale';

export interface SpanSurroundings extends Pick<SpanOptions, 'kind' | 'links'> {
  /** What the span's parent is taken from. Default: the active context. */
  parent?: Context;
}

/**
 * Runs `run` within a span, which is the parent of every span begun in it, also after an `await`. The span ends when
 * `run` returns or its promise settles. What is thrown is recorded, sets the status to error and `error.type` to its
 * code or class, and is thrown on. Without an OpenTelemetry SDK in the application it only calls `run`.
 *
 * @param attributes Known when the span begins; add what comes out later with `span.setAttribute`.
 */
export function withSpan<Result>(
  name: string,
  attributes: Attributes,
  run: (span: Span) => Result,
  { parent = context.active(), ...options }: SpanSurroundings = {},
): Result {
  // Asked for at each call: an SDK may be registered after this module is loaded.
  return trace
    .getTracer(instrumentationName, martingaleVersion)
    .startActiveSpan(name, { attributes, ...options }, parent, (span) => {
      let result: Result;
      try {
        result = run(span);
      } catch (error) {
        fail(span, error);
        span.end();
        throw error;
      }
      if (!(result instanceof Promise) || !span.isRecording()) {
        span.end();
        return result;
      }
      // The span watches the promise; the caller gets the promise itself.
      result.then(
        () => span.end(),
        (error: unknown) => {
          fail(span, error);
          span.end();
        },
      );
      return result;
    });
}

function fail(span: Span, error: unknown): void {
  if (!span.isRecording()) return;
  const message = error instanceof Error ? error.message : String(error);
  span.recordException(error instanceof Error ? error : message);
  span.setAttribute(errorType, errorKind(error));
  span.setStatus({ code: SpanStatusCode.ERROR, message });
}

/** What `error.type` says: the error's code or class. */
export function errorKind(error: unknown): string {
  if (MartingaleError.isInstance(error)) return error.code;
  return error instanceof Error ? error.name : '_OTHER';
}

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

/** Turns the capture of content on where it is `true` as the process starts. */
export const captureContentVariable = 'MARTINGALE_CAPTURE_CONTENT';

let capturing = process.env[captureContentVariable] === 'true';

/**
 * Whether spans of model calls carry the conversation (`gen_ai.input.messages`, `gen_ai.output.messages`). Off by
 * default: prompts and replies may hold what must not reach a tracing backend. `MARTINGALE_CAPTURE_CONTENT=true` in
 * the environment turns it on too.
 */
export function captureContent(on = true): void {
  capturing = on;
}

type Sent = ChatCompletionRequest['messages'][number];

/** The messages of a call and its reply as the conventions write them; nothing unless `captureContent` is on. */
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

function toMessage(message: Sent | Choice['message']) {
  const { role, content } = message;
  const calls = 'tool_calls' in message ? (message.tool_calls ?? []) : [];
  const answered = 'tool_call_id' in message ? message.tool_call_id : undefined;
  const text = typeof content === 'string' ? content : content == null ? null : JSON.stringify(content);
  const said = answered
    ? [{ type: 'tool_call_response', id: answered, response: text }]
    : text === null
      ? []
      : [{ type: 'text', content: text }];
  const called = calls.map(({ id, function: { name, arguments: given } }) => ({
    ...{ type: 'tool_call', id, name, arguments: given },
  }));
  return { role, parts: [...said, ...called] };
}
