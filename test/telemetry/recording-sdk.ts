import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Attributes,
  type Context,
  type ContextManager,
  context,
  type Exception,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  type SpanOptions,
  type SpanStatus,
  type TextMapPropagator,
  type Tracer,
  trace,
} from '@opentelemetry/api';

/** The data of a span, as an application's SDK records it. */
export class RecordedSpan implements Span {
  readonly name: string;
  readonly attributes: Attributes;
  readonly parent: string | undefined;
  readonly exceptions: Exception[] = [];
  readonly #context: SpanContext;
  status: SpanStatus | undefined;
  ends = 0;

  constructor(name: string, options: SpanOptions, parent: Span | undefined, number: number) {
    this.name = name;
    this.attributes = { ...options.attributes };
    this.parent = parent instanceof RecordedSpan ? parent.name : undefined;
    this.#context = { traceId: '1'.repeat(32), spanId: String(number).padStart(16, '0'), traceFlags: 1 };
  }

  spanContext = () => this.#context;
  isRecording = () => this.ends === 0;
  recordException = (exception: Exception) => void this.exceptions.push(exception);
  end = () => void this.ends++;
  addEvent = () => this;
  addLink = () => this;
  addLinks = () => this;
  updateName = () => this;

  setAttribute(name: string, value: NonNullable<Attributes[string]>): this {
    this.attributes[name] = value;
    return this;
  }

  setAttributes(attributes: Attributes): this {
    Object.assign(this.attributes, attributes);
    return this;
  }

  setStatus(status: SpanStatus): this {
    this.status = status;
    return this;
  }
}

class AsyncContextManager implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>();
  active = () => this.#storage.getStore() ?? ROOT_CONTEXT;
  bind = <Target>(_: Context, target: Target) => target;
  enable = () => this;
  disable = () => this;

  with<Arguments extends unknown[], Run extends (...values: Arguments) => ReturnType<Run>>(
    active: Context,
    run: Run,
    thisArgument?: ThisParameterType<Run>,
    ...values: Arguments
  ): ReturnType<Run> {
    return this.#storage.run(active, () => run.apply(thisArgument, values));
  }
}

const traceparent: TextMapPropagator = {
  fields: () => ['traceparent'],
  extract: (given) => given,
  inject: (given, carrier, setter) => {
    const span = trace.getSpanContext(given);
    if (span) setter.set(carrier, 'traceparent', `00-${span.traceId}-${span.spanId}-01`);
  },
};

/** Registers an SDK that records spans in order of their start, until `stop`. */
export function startRecording(): { spans: RecordedSpan[]; stop: () => void } {
  const spans: RecordedSpan[] = [];
  const start = (
    name: string,
    options: SpanOptions = {},
    parent: Context = context.active(),
  ): RecordedSpan => {
    const span = new RecordedSpan(name, options, trace.getSpan(parent), spans.length + 1);
    spans.push(span);
    return span;
  };
  const tracer: Tracer = {
    startSpan: start,
    startActiveSpan: <Run extends (span: Span) => unknown>(
      name: string,
      ...rest: [Run] | [SpanOptions, Run] | [SpanOptions, Context, Run]
    ): ReturnType<Run> => {
      const run = rest.at(-1) as Run;
      const parent = rest.length > 2 ? (rest[1] as Context) : context.active();
      const span = start(name, rest.length > 1 ? (rest[0] as SpanOptions) : {}, parent);
      return context.with(
        trace.setSpan(parent, span),
        run as (span: Span) => ReturnType<Run>,
        undefined,
        span,
      );
    },
  };
  context.setGlobalContextManager(new AsyncContextManager());
  propagation.setGlobalPropagator(traceparent);
  trace.setGlobalTracerProvider({ getTracer: () => tracer });
  return {
    spans,
    stop: () => {
      trace.disable();
      context.disable();
      propagation.disable();
    },
  };
}
