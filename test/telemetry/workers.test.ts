import { runGroups } from 'martingale';
import { expect, onTestFinished, test } from 'vitest';
import { spanName } from '../../src/telemetry/index.ts';
import echoing from '../rollout/leases/echoing.ts';
import { open, startWorker } from '../rollout/leases/workers.ts';
import { startOtlpReceiver } from './otlp-receiver.ts';
import { startRecording } from './recording-sdk.ts';

test('what a worker does is part of the rollout in the trace of the program', async () => {
  const collector = await startOtlpReceiver();
  const { spans, stop } = startRecording();
  onTestFinished(async () => {
    stop();
    await collector.close();
  });
  const { executor, model } = await open();
  const sdk = new URL('./preloaded-sdk.ts', import.meta.url).href;
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, NODE_OPTIONS: `--import ${sdk}` };
  startWorker(['--url', executor.url], { env });
  const { counts } = await runGroups({
    environment: echoing,
    scenarios: [{ id: 1, turns: 2 }],
    rolloutsPerGroup: 2,
    model,
    executor,
  });
  expect(counts).toMatchObject({ completed: 2 });
  const rollouts = spans.filter(({ name }) => name === spanName.rollout);
  expect(rollouts).toHaveLength(2);
  const named = (start: string) => collector.spans.filter(({ name }) => name.startsWith(start));
  // The worker's exporter sends in several parts, and not in the order in which the spans began.
  await expect.poll(() => [named('chat').length, named('reward').length]).toEqual([4, 2]);
  expect(collector.spans.map(({ name }) => name)).not.toContain(spanName.rollout);
  for (const { traceId, parentSpanId } of named('chat')) {
    expect(traceId).toBe('1'.repeat(32));
    expect(rollouts.map((rollout) => rollout.spanContext().spanId)).toContain(parentSpanId);
  }
});
