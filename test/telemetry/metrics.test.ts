import { metrics } from '@opentelemetry/api';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { generateText } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { defineEnvironment, externalModel, runGroups } from '../../src/index.ts';
import { metricName } from '../../src/telemetry/index.ts';

let exporter: InMemoryMetricExporter;
let provider: MeterProvider;

beforeEach(() => {
  exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  provider = new MeterProvider({ readers: [new PeriodicExportingMetricReader({ exporter })] });
  metrics.setGlobalMeterProvider(provider);
});
afterEach(async () => {
  await provider.shutdown();
  metrics.disable();
});

const dataSchema = z.object({ attributes: z.record(z.string(), z.unknown()), value: z.unknown() });

/** The data points of a metric, in the newest export. */
async function pointsOf(name: string) {
  await provider.forceFlush();
  const all =
    exporter
      .getMetrics()
      .at(-1)
      ?.scopeMetrics.flatMap((scope) => scope.metrics) ?? [];
  const found = all.find(({ descriptor }) => descriptor.name === name);
  return (found?.dataPoints ?? []).map((point) => dataSchema.parse(point));
}

test('calls and tokens of an external model, and values of group rewards, are counted', async () => {
  const usage = { total: 5, noCache: 5, cacheRead: 0, cacheWrite: 0 };
  const model = new MockLanguageModelV4({
    provider: 'elsewhere',
    modelId: 'hosted',
    doGenerate: async () => ({
      content: [{ type: 'text', text: 'yes' }],
      finishReason: { unified: 'stop', raw: 'stop' },
      usage: { inputTokens: usage, outputTokens: { total: 2, text: 2, reasoning: 0 } },
      warnings: [],
    }),
  });
  const environment = defineEnvironment({
    name: 'counted',
    scenario: z.object({ id: z.number() }),
    rollout: async ({ model: asked }) =>
      (await generateText({ model: asked.languageModel, prompt: 'well?' })).text,
    groupRewards: { ranked: ({ members }) => members.map((_, at) => at) },
  });
  await runGroups({ environment, scenarios: [{ id: 1 }], rolloutsPerGroup: 3, model: externalModel(model) });

  const counts = (points: Awaited<ReturnType<typeof pointsOf>>) =>
    points.map(({ attributes, value }) => [attributes, z.object({ count: z.number() }).parse(value).count]);
  const labels = { 'gen_ai.provider.name': 'elsewhere', 'gen_ai.request.model': 'hosted' };
  expect(counts(await pointsOf(metricName.operationDuration))).toEqual([
    [expect.objectContaining(labels), 3],
  ]);
  expect(counts(await pointsOf(metricName.tokenUsage))).toEqual([
    [expect.objectContaining({ ...labels, 'gen_ai.token.type': 'input' }), 3],
    [expect.objectContaining({ ...labels, 'gen_ai.token.type': 'output' }), 3],
  ]);
  expect(counts(await pointsOf(metricName.reward))).toEqual([
    [expect.objectContaining({ 'martingale.reward.name': 'ranked' }), 3],
  ]);
});
