import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { context, metrics, propagation, trace } from '@opentelemetry/api';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPMetricExporter as ProtobufMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { stepCountIs, ToolLoopAgent, tool } from 'ai';
import { defineEnvironment, train } from 'martingale';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type FakePolicy, startFakeService } from '../../model/fake-service.ts';
import { sharedFolder } from '../../support/files.ts';
import { pythonEnvironment } from '../python-environment.ts';

const environment = await pythonEnvironment({
  what: 'traces and metrics as protobuf and as JSON, against the schema of OTLP',
  requirements: ['opentelemetry-proto==1.45.2', 'protobuf==7.36.2'],
});

const attributeSchema = z.object({ key: z.string(), value: z.record(z.string(), z.unknown()) });
const scopeSchema = z.object({ name: z.string(), version: z.string() });
const spanSchema = z.object({
  spanId: z.string(),
  parentSpanId: z.string().optional(),
  name: z.string(),
  kind: z.string(),
  attributes: z.array(attributeSchema).default([]),
});
const pointSchema = z.object({ attributes: z.array(attributeSchema).default([]) });
const metricSchema = z.object({
  name: z.string(),
  gauge: z.object({ dataPoints: z.array(pointSchema) }).optional(),
});
const bodySchema = z.object({
  resourceSpans: z
    .array(z.object({ scopeSpans: z.array(z.object({ scope: scopeSchema, spans: z.array(spanSchema) })) }))
    .default([]),
  resourceMetrics: z
    .array(
      z.object({ scopeMetrics: z.array(z.object({ scope: scopeSchema, metrics: z.array(metricSchema) })) }),
    )
    .default([]),
});
const receivedSchema = z.array(
  z.object({
    path: z.string(),
    contentType: z.string(),
    error: z.string().optional(),
    body: bodySchema.optional(),
  }),
);

const plain = (attributes: z.infer<typeof attributeSchema>[]) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));

const policy: FakePolicy = ({ messages, seed = 0 }) =>
  messages.at(-1)?.role === 'user'
    ? { toolCalls: [{ name: 'look', arguments: '{}' }] }
    : { text: String(Number(seed) % 2) };

const looking = defineEnvironment({
  name: 'looking',
  scenario: z.object({}),
  rollout: async ({ model, signal }) => {
    const agent = new ToolLoopAgent({
      model: model.languageModel,
      tools: { look: tool({ inputSchema: z.object({}), execute: () => 'a wall' }) },
      stopWhen: stepCountIs(3),
    });
    return (await agent.generate({ prompt: 'look', abortSignal: signal })).text;
  },
  rewards: { success: ({ outcome }) => Number(outcome) },
});

describe.skipIf(environment === null)('a run, sent by OTLP over HTTP to a collector of its schema', () => {
  let received: z.infer<typeof receivedSchema> = [];
  const folder = sharedFolder();
  let collector: ChildProcess | undefined;
  const bodies = (contentType: string) =>
    received.flatMap((one) => (one.contentType === contentType && one.body ? [one.body] : []));
  const spansOf = (contentType: string) =>
    bodies(contentType)
      .flatMap(({ resourceSpans }) => resourceSpans.flatMap(({ scopeSpans }) => scopeSpans))
      .flatMap(({ spans }) => spans)
      .sort((a, b) => a.spanId.localeCompare(b.spanId));
  const named = (name: string) => spansOf('application/json').filter((span) => span.name === name);

  beforeAll(async () => {
    const child = spawn(environment?.python ?? '', [join(import.meta.dirname, 'collector.py')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    collector = child;
    const [port] = await once(createInterface(child.stdout), 'line');
    const url = `http://127.0.0.1:${port}`;
    const [traces, meters] = [{ url: `${url}/v1/traces` }, { url: `${url}/v1/metrics` }];
    const tracing = new NodeTracerProvider({
      spanProcessors: [new OTLPTraceExporter(traces), new ProtobufTraceExporter(traces)].map(
        (exporter) => new BatchSpanProcessor(exporter),
      ),
    });
    tracing.register();
    const metering = new MeterProvider({
      readers: [new OTLPMetricExporter(meters), new ProtobufMetricExporter(meters)].map(
        (exporter) => new PeriodicExportingMetricReader({ exporter }),
      ),
    });
    metrics.setGlobalMeterProvider(metering);
    const service = await startFakeService({ policy });
    for (const name of ['first', 'second'])
      await train({
        environment: looking,
        scenarios: [{}],
        client: service.client,
        model: { project: 'p', name, baseModel: 'tiny' },
        steps: 1,
        groupsPerStep: 1,
        rolloutsPerGroup: 4,
        runDirectory: join(folder, name),
        progress: false,
      });
    await service[Symbol.asyncDispose]();
    await tracing.shutdown();
    await metering.shutdown();
    received = receivedSchema.parse(await (await fetch(url)).json());
  }, 60_000);

  afterAll(async () => {
    collector?.kill();
    for (const api of [trace, metrics, context, propagation]) api.disable();
  });

  test('is accepted completely in both encodings, with the same content', () => {
    expect(received.flatMap(({ error }) => error ?? [])).toEqual([]);
    expect(new Set(received.map(({ path, contentType }) => `${path} ${contentType}`))).toEqual(
      new Set(
        ['/v1/traces', '/v1/metrics'].flatMap((path) => [
          `${path} application/json`,
          `${path} application/x-protobuf`,
        ]),
      ),
    );
    expect(spansOf('application/json').length).toBeGreaterThan(20);
    expect(spansOf('application/x-protobuf')).toEqual(spansOf('application/json'));
  });

  test('names the package and its version', async () => {
    const { version } = z
      .object({ version: z.string() })
      .parse(JSON.parse(await readFile(join(import.meta.dirname, '../../../package.json'), 'utf8')));
    const scopes = bodies('application/json').flatMap(({ resourceSpans, resourceMetrics }) => [
      ...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.map(({ scope }) => scope)),
      ...resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.map(({ scope }) => scope)),
    ]);
    expect(new Set(scopes.map((scope) => JSON.stringify(scope)))).toEqual(
      new Set([JSON.stringify({ name: 'martingale', version })]),
    );
  });

  test('names model, base model and environment, and the results of a step and of an agent', () => {
    expect(named('run').map(({ attributes }) => plain(attributes))).toEqual(
      expect.arrayContaining(
        ['first', 'second'].map((name) =>
          expect.objectContaining({
            'martingale.run.id': name,
            'martingale.environment': 'looking',
            'martingale.model.name': `local/p/${name}`,
            'martingale.model.base': 'tiny',
          }),
        ),
      ),
    );
    for (const { attributes } of named('step'))
      expect(plain(attributes)).toMatchObject({
        'martingale.reward': expect.any(Number),
        'martingale.success': expect.any(Number),
      });
    for (const { attributes } of named('rollout'))
      expect(plain(attributes)).toMatchObject({
        'gen_ai.operation.name': 'invoke_agent',
        'gen_ai.agent.name': 'looking',
      });
  });

  test('has model calls of kind CLIENT, and one span for each use of a tool that the AI SDK runs', () => {
    const calls = spansOf('application/json').filter(({ name }) => name.startsWith('chat '));
    expect(calls).toHaveLength(2 * 4 * 2);
    expect(new Set(calls.map(({ kind }) => kind))).toEqual(new Set(['SPAN_KIND_CLIENT']));
    const tools = named('execute_tool look');
    expect(tools).toHaveLength(2 * 4);
    const rollouts = new Set(named('rollout').map(({ spanId }) => spanId));
    for (const { parentSpanId, attributes } of tools) {
      expect(rollouts.has(parentSpanId ?? '')).toBe(true);
      expect(plain(attributes)).toMatchObject({
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': 'look',
        'gen_ai.tool.call.id': expect.stringMatching(/^call_/),
      });
    }
  });

  test('keeps the gauges of two runs apart', () => {
    const points = bodies('application/json')
      .flatMap(({ resourceMetrics }) => resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics))
      .flatMap((scope) => scope.metrics)
      .filter(({ name }) => name === 'martingale.step.reward')
      .at(-1)?.gauge?.dataPoints;
    expect(points?.map(({ attributes }) => plain(attributes))).toEqual(
      ['first', 'second'].map((name) => ({
        'martingale.run.id': name,
        'martingale.environment': 'looking',
        'martingale.model.name': `local/p/${name}`,
      })),
    );
  });
});
