import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { expect, test } from 'vitest';
import { start } from '../service/harness.ts';
import { groups, rl } from '../service/jobs/support.ts';
import { temporaryFolder } from '../support/files.ts';
import { door, ScriptedEngine } from '../support/scripted-engine.ts';

test('a job that runs after a restart links to the span that requested it', async () => {
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const spanId = 'b7ad6b7169203331';
  const dataFolder = await temporaryFolder();
  const engine = new ScriptedEngine();
  const held = door();
  engine.hold = held.wait;
  // No SDK is there while the job is asked for.
  const before = await start({ dataFolder, engine });
  const model = await before.createModel();
  const body = { model_id: model.id, trajectory_groups: groups };
  const { body: job } = await before.call('POST', rl, body, { traceparent: `00-${traceId}-${spanId}-01` });
  await held.reached;
  await before.service.close();

  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  provider.register();
  const after = await start({ dataFolder });
  await after.follow(job.id);
  await after.service.close();
  const work = exporter.getFinishedSpans().filter(({ name }) => name === 'training_job');
  expect(work).toHaveLength(1);
  expect(work[0]?.parentSpanContext).toBeUndefined();
  expect(work[0]?.links.map(({ context }) => [context.traceId, context.spanId])).toEqual([[traceId, spanId]]);
  expect(work[0]?.attributes).toMatchObject({
    ...{ 'martingale.job.id': job.id, 'martingale.job.kind': 'rl', 'martingale.policy.version': 1 },
  });
  await provider.shutdown();
});
