import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

// biome-ignore lint/suspicious/noExplicitAny: JSON of another program has no type before it is checked.
type Json = any;

export interface ReceivedSpan {
  name: string;
  kind: number;
  traceId: string;
  spanId: string;
  parentSpanId: string | undefined;
  attributes: Record<string, unknown>;
  links: { traceId: string; spanId: string }[];
}

/** A collector that takes traces and metrics by OTLP over HTTP, as JSON. */
export async function startOtlpReceiver() {
  const spans: ReceivedSpan[] = [];
  const metrics = new Map<string, Json>();
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body: Json = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    for (const { scopeSpans } of body.resourceSpans ?? [])
      for (const scope of scopeSpans) spans.push(...scope.spans.map(toSpan));
    for (const { scopeMetrics } of body.resourceMetrics ?? [])
      for (const scope of scopeMetrics) for (const metric of scope.metrics) metrics.set(metric.name, metric);
    response.setHeader('content-type', 'application/json').end('{}');
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { url, spans, metrics, close };
}

const toSpan = (span: Json): ReceivedSpan => ({
  ...{ name: span.name, kind: span.kind, traceId: span.traceId, spanId: span.spanId },
  parentSpanId: span.parentSpanId || undefined,
  attributes: Object.fromEntries(span.attributes.map(({ key, value }: Json) => [key, plain(value)])),
  links: (span.links ?? []).map(({ traceId, spanId }: Json) => ({ traceId, spanId })),
});

const plain = (value: Json): unknown => {
  const [kind, held] = Object.entries<Json>(value)[0] ?? [];
  if (kind === 'intValue') return Number(held);
  return kind === 'arrayValue' ? (held.values ?? []).map(plain) : held;
};
