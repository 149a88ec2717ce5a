// Sends a run's spans and metrics to an OTLP collector. The library uses only the OpenTelemetry API; an application that
// registers an SDK gets the spans run > step > group > rollout > model call, tool and reward. The service's spans join
// the trace if its process registers an SDK too: preload it with NODE_OPTIONS='--import ./your-sdk.ts'. Start
// `MARTINGALE_API_KEY=mine npm run martingale -- serve` and a collector on port 4318, then run:
// npx tsx examples/opentelemetry.ts
import { metrics } from '@opentelemetry/api';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { generateText } from 'ai';
import { captureContent, defineEnvironment, train } from 'martingale';
import { z } from 'zod';

const [steps = '2', runDirectory] = process.argv.slice(2);

// Sends to OTEL_EXPORTER_OTLP_ENDPOINT. Default: http://localhost:4318.
const tracing = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
tracing.register();
const meters = new MeterProvider({
  readers: [new PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter() })],
});
metrics.setGlobalMeterProvider(meters);
// Adds prompts and replies to the spans of model calls. Off by default.
captureContent();

await train({
  environment: defineEnvironment({
    name: 'coin',
    scenario: z.object({ side: z.enum(['heads', 'tails']) }),
    rollout: async ({ model, scenario }) =>
      (await generateText({ model: model.languageModel, prompt: scenario.side, maxOutputTokens: 8 })).text,
    rewards: { short: ({ outcome }) => -outcome.length },
  }),
  scenarios: [{ side: 'heads' }, { side: 'tails' }],
  baseUrl: process.env.MARTINGALE_BASE_URL ?? 'http://127.0.0.1:8000',
  apiKey: process.env.MARTINGALE_API_KEY ?? 'mine',
  model: { project: 'examples', name: 'coin', baseModel: 'martingale-tiny' },
  steps: Number(steps),
  groupsPerStep: 2,
  rolloutsPerGroup: 4,
  runDirectory,
});
await tracing.shutdown();
await meters.shutdown();
