import { z } from 'zod';
import { startServer } from '../support/http-server.ts';

const attributeSchema = z.object({ key: z.string(), value: z.record(z.string(), z.unknown()) });
const spanSchema = z.object({
  name: z.string(),
  kind: z.number(),
  traceId: z.string(),
  spanId: z.string(),
  parentSpanId: z.string().optional(),
  attributes: z.array(attributeSchema),
  links: z.array(z.object({ traceId: z.string(), spanId: z.string() })).default([]),
});
const pointsSchema = z.object({ dataPoints: z.array(z.record(z.string(), z.unknown())) });
const metricSchema = z.object({
  name: z.string(),
  sum: pointsSchema.optional(),
  histogram: pointsSchema.optional(),
  gauge: pointsSchema.optional(),
});
const bodySchema = z.object({
  resourceSpans: z
    .array(z.object({ scopeSpans: z.array(z.object({ spans: z.array(spanSchema) })) }))
    .default([]),
  resourceMetrics: z
    .array(z.object({ scopeMetrics: z.array(z.object({ metrics: z.array(metricSchema) })) }))
    .default([]),
});

export interface ReceivedSpan {
  name: string;
  kind: number;
  traceId: string;
  spanId: string;
  parentSpanId: string | undefined;
  attributes: Record<string, unknown>;
  links: { traceId: string; spanId: string }[];
}

/** A collector that receives traces and metrics by OTLP over HTTP, as JSON. `traces`: the bodies as they came. */
export async function startOtlpReceiver() {
  const spans: ReceivedSpan[] = [];
  const traces: string[] = [];
  const metrics = new Map<string, z.infer<typeof metricSchema>>();
  const { url, close } = await startServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString('utf8');
    const body = bodySchema.parse(JSON.parse(text));
    if (body.resourceSpans.length > 0) traces.push(text);
    for (const { scopeSpans } of body.resourceSpans)
      for (const scope of scopeSpans) spans.push(...scope.spans.map(toSpan));
    for (const { scopeMetrics } of body.resourceMetrics)
      for (const scope of scopeMetrics) for (const metric of scope.metrics) metrics.set(metric.name, metric);
    response.setHeader('content-type', 'application/json').end('{}');
  });
  return { url, spans, traces, metrics, close };
}

const toSpan = (span: z.infer<typeof spanSchema>): ReceivedSpan => ({
  ...{ name: span.name, kind: span.kind, traceId: span.traceId, spanId: span.spanId },
  parentSpanId: span.parentSpanId || undefined,
  attributes: Object.fromEntries(span.attributes.map(({ key, value }) => [key, plain(value)])),
  links: span.links.map(({ traceId, spanId }) => ({ traceId, spanId })),
});

const arraySchema = z.object({ values: z.array(z.record(z.string(), z.unknown())).default([]) });

/** The plain value of an attribute, which OTLP wraps with its type. */
function plain(value: Record<string, unknown>): unknown {
  const [kind, held] = Object.entries(value)[0] ?? [];
  if (kind === 'intValue') return Number(held);
  return kind === 'arrayValue' ? arraySchema.parse(held).values.map(plain) : held;
}
