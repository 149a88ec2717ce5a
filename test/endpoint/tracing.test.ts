import { context, trace } from '@opentelemetry/api';
import { closeEndpoints } from 'martingale';
import { runInTrajectory } from 'martingale/loop';
import OpenAI from 'openai';
import { afterEach, expect, test } from 'vitest';
import { startRecording } from '../telemetry/recording-sdk.ts';
import { openDesk, openRollout } from './support.ts';

let recording: ReturnType<typeof startRecording>;
afterEach(async () => {
  recording.stop();
  await closeEndpoints();
});

test('calls through the endpoint are spans of their own rollout', async () => {
  recording = startRecording();
  await using desk = await openDesk(() => ({ text: 'hello' }));
  const tracer = trace.getTracer('test');
  const clients = await Promise.all(
    ['first', 'second'].map((rollout) =>
      tracer.startActiveSpan(rollout, () =>
        runInTrajectory(openRollout().trajectory, async () => {
          const { baseUrl, apiKey } = await desk.model.endpoint();
          return new OpenAI({ baseURL: baseUrl, apiKey });
        }),
      ),
    ),
  );
  expect(trace.getSpan(context.active())).toBeUndefined();
  for (const client of clients) await client.responses.create({ model: 'any', input: 'a' });
  const [first, second] = clients;
  await first?.chat.completions.create({ model: 'any', messages: [{ role: 'user', content: 'a' }] });
  for await (const _ of (await second?.responses.create({ model: 'any', input: 'b', stream: true })) ?? []);
  const calls = recording.spans.filter(({ name }) => name.startsWith('chat'));
  expect(calls.map(({ parent, ends }) => [parent, ends])).toEqual([
    ['first', 1],
    ['second', 1],
    ['first', 1],
    ['second', 1],
  ]);
});
