// A run's spans and metrics at an OTLP collector: the library uses the OpenTelemetry API alone, and an application
// that registers an SDK sees run > step > group > rollout > model call, tool and reward. The service's spans join the
// trace where its process registers one too: preload it with NODE_OPTIONS='--import ./your-sdk.ts'. Start
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

// The address is that of OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318.
const tracing = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
tracing.register();
const meters = new MeterProvider({
  readers: [new PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter() })],
});
metrics.setGlobalMeterProvider(meters);
// Prompts and replies on the spans of model calls: off unless asked for.
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
  baseUrl: process.env.MARTINGALE_URL ?? 'http://127.0.0.1:8000',
  apiKey: process.env.MARTINGALE_API_KEY ?? 'mine',
  model: { project: 'examples', name: 'coin', baseModel: 'martingale-tiny' },
  steps: Number(steps),
  groupsPerStep: 2,
  rolloutsPerGroup: 4,
  runDirectory,
});
await tracing.shutdown();
await meters.shutdown();
