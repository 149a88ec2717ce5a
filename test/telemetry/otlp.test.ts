import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { metrics } from '@opentelemetry/api';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { generateText, tool } from 'ai';
import { defineEnvironment, traceTools, train } from 'martingale';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { readScenarios } from '../../src/formats/conversations/read-scenarios.ts';
import { captureContent } from '../../src/telemetry/index.ts';
import { baseModel, startRealService } from '../model/real-service.ts';
import { temporaryFolder } from '../support/files.ts';
import { type ReceivedSpan, startOtlpReceiver } from './otlp-receiver.ts';

describe('a run with the SDK, over a real service, at an OTLP receiver', () => {
  let receiver: Awaited<ReturnType<typeof startOtlpReceiver>>;
  const all = (name: string) => receiver.spans.filter((span) => span.name === name);
  const parentOf = (span: ReceivedSpan | undefined) =>
    receiver.spans.find(({ spanId }) => spanId === span?.parentSpanId);
  const call = 'chat local/p/n:step0';
  let uses = 0;

  beforeAll(async () => {
    receiver = await startOtlpReceiver();
    const traceExporter = new OTLPTraceExporter({ url: `${receiver.url}/v1/traces` });
    const tracing = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(traceExporter)] });
    tracing.register();
    const exporter = new OTLPMetricExporter({ url: `${receiver.url}/v1/metrics` });
    const meters = new MeterProvider({ readers: [new PeriodicExportingMetricReader({ exporter })] });
    metrics.setGlobalMeterProvider(meters);
    captureContent();
    const service = await startRealService();
    const tools = traceTools({
      look: tool({
        inputSchema: z.object({ at: z.enum(['a', 'b']) }),
        execute: ({ at }) => `saw ${at} in use ${++uses}`,
      }),
    });
    let scored = 0;
    await train({
      environment: defineEnvironment({
        name: 'traced',
        scenario: z.object({}),
        rollout: ({ model }) =>
          generateText({ model: model.languageModel, prompt: 'look', tools, toolChoice: 'required' }),
        rewards: { right: () => scored++ % 2 },
      }),
      ...{ scenarios: [{}], client: service.client, steps: 1, groupsPerStep: 1, rolloutsPerGroup: 4 },
      model: { project: 'p', name: 'n', baseModel },
      runDirectory: `${service.folder}/run`,
    });
    await service.close();
    captureContent(false);
    await tracing.shutdown();
    await meters.shutdown();
  }, 60_000);
  afterAll(() => receiver.close());

  it('is one tree: run, step, group, rollout, then model call, tool and reward', () => {
    expect(all('run')).toHaveLength(1);
    expect(parentOf(all('run')[0])).toBeUndefined();
    const edges: [string, string, number][] = [
      ['step', 'run', 1],
      ['group', 'step', 1],
      ['rollout', 'group', 4],
      [call, 'rollout', 4],
      ['execute_tool look', 'rollout', uses],
      ['reward', 'rollout', 4],
      ['job', 'step', 1],
    ];
    for (const [name, parent, count] of edges) {
      expect(all(name), name).toHaveLength(count);
      for (const span of all(name)) expect(parentOf(span)?.name, name).toBe(parent);
    }
  });

  it('continues in the service: its requests are children of the calls, in the same trace', () => {
    const requests = all('POST /v1/chat/completions');
    expect(requests).toHaveLength(4);
    const [{ traceId } = { traceId: '' }] = all('run');
    for (const request of requests) {
      expect(parentOf(request)?.name).toBe(call);
      expect(request.traceId).toBe(traceId);
      expect(request.attributes).toMatchObject({
        ...{ 'http.request.method': 'POST', 'http.route': '/v1/chat/completions' },
        'http.response.status_code': 200,
      });
    }
    expect(new Set(all('inference').map((span) => parentOf(span)?.name))).toEqual(
      new Set(['POST /v1/chat/completions']),
    );
  });

  it('links the service’s work on the job to the span that requested it', () => {
    const [work] = all('training_job');
    const [job] = all('job');
    expect(work?.parentSpanId).toBeUndefined();
    expect(work?.links).toEqual([{ traceId: job?.traceId, spanId: job?.spanId }]);
    expect(work?.attributes['martingale.job.id']).toBe(job?.attributes['martingale.job.id']);
  });

  it('has the conversation id of a call, its messages if requested, and the reward', () => {
    for (const span of all(call)) {
      expect(span.attributes['gen_ai.conversation.id']).toBe(
        parentOf(span)?.attributes['gen_ai.conversation.id'],
      );
      expect(JSON.parse(String(span.attributes['gen_ai.input.messages']))).toEqual([
        { role: 'user', parts: [{ type: 'text', content: 'look' }] },
      ]);
      expect(String(span.attributes['gen_ai.output.messages'])).toContain('"tool_call"');
    }
    for (const span of all('reward'))
      expect(span.attributes).toMatchObject({
        'gen_ai.evaluation.name': 'right',
        'gen_ai.evaluation.score.value': expect.any(Number),
      });
  });

  it('is read as scenarios, where it has its messages', async () => {
    const file = join(await temporaryFolder(), 'traces.jsonl');
    await writeFile(file, receiver.traces.map((text) => `${text}\n`).join(''));
    const { train: read, report } = await readScenarios([file], { validation: 0 });
    expect(report).toMatchObject({ read: 4, unread: [] });
    expect(read).toMatchObject([
      {
        messages: [{ role: 'user', content: 'look' }],
        reply: {
          role: 'assistant',
          tool_calls: expect.arrayContaining([
            expect.objectContaining({ function: { name: 'look', arguments: expect.stringContaining('at') } }),
          ]),
        },
        model: 'local/p/n:step0',
      },
    ]);
  });

  it('includes the metrics', () => {
    const counted = (name: string) => {
      const { sum, histogram, gauge } = receiver.metrics.get(name) ?? {};
      const points = (sum ?? histogram ?? gauge)?.dataPoints ?? [];
      return points.reduce(
        (total: number, { asInt, asDouble, count }: Record<string, unknown>) =>
          total + Number(count ?? asInt ?? asDouble),
        0,
      );
    };
    expect(counted('martingale.rollouts')).toBe(4);
    expect(counted('martingale.rollout.duration')).toBe(4);
    expect(counted('gen_ai.client.operation.duration')).toBe(4);
    // Of prompt and of reply.
    expect(counted('gen_ai.client.token.usage')).toBe(8);
    expect(counted('martingale.reward')).toBe(4);
    expect(uses).toBeGreaterThan(0);
    expect(counted('martingale.tool.duration')).toBe(uses);
    expect(counted('martingale.model.calls_in_flight')).toBe(0);
    expect(counted('martingale.steps')).toBe(1);
    expect(counted('martingale.step.reward')).toBe(0.5);
    expect(counted('martingale.step.signal_share')).toBe(1);
  });
});
