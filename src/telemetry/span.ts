import {
  type Attributes,
  type Context,
  context,
  type Span,
  type SpanOptions,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { MartingaleError } from '../contract/index.ts';
import { martingaleVersion } from '../util/version.ts';
import { errorType } from './names.ts';

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
