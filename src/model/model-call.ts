import { type Attributes, type Span, SpanKind } from '@opentelemetry/api';
import { isRequestError } from '../client/index.ts';
import { countModelCall, errorKind, recordModelCall, spanName, withSpan } from '../telemetry/index.ts';
import type { CallBudget, CallOutcome } from './call-budget.ts';

interface ModelCallOptions {
  /** Name of the model in the span. */
  name: string;
  /** Labels of the metrics. */
  labels: { provider: string; model: string };
  attributes: Attributes;
  budget: CallBudget | undefined;
  signal: AbortSignal | undefined;
}

/** A running model call. `onRetry` reports the statuses of attempts that are retried. */
interface ModelCall {
  span: Span;
  onRetry: (notice: { status: unknown }) => void;
}

/** Runs a model call in its span and its slot of the budget, and reports it to the metrics. */
export function runModelCall<Result>(
  { name, labels, attributes, budget, signal }: ModelCallOptions,
  work: (call: ModelCall) => Promise<Result>,
): Promise<Result> {
  const run = async (span: Span) => {
    const slot = await budget?.acquire(signal);
    const startedMs = performance.now();
    countModelCall(1, labels);
    let failure: string | undefined;
    let status: CallOutcome['status'] = 'answered';
    const onRetry = (notice: { status: unknown }) => {
      if (notice.status !== 429 && notice.status !== 503) return;
      status = 'rate_limited';
      slot?.rateLimited();
    };
    try {
      return await work({ span, onRetry });
    } catch (error) {
      failure = errorKind(error);
      if (status === 'answered') status = 'failed';
      onRetry({ status: httpStatusOf(error) });
      throw error;
    } finally {
      const durationMs = performance.now() - startedMs;
      slot?.release({ status, durationMs });
      countModelCall(-1, labels);
      recordModelCall({ ...labels, durationMs, error: failure });
    }
  };
  return withSpan(spanName.modelCall(name), attributes, run, { kind: SpanKind.CLIENT });
}

/** The HTTP status of an error of the client or of an AI SDK provider. */
function httpStatusOf(error: unknown): unknown {
  if (isRequestError(error)) return error.status;
  return error instanceof Error && 'statusCode' in error ? error.statusCode : undefined;
}
