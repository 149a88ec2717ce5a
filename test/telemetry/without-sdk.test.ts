import { trace } from '@opentelemetry/api';
import { expect, it } from 'vitest';
import {
  contentAttributes,
  linksTo,
  recordReward,
  recordRollout,
  withSpan,
} from '../../src/telemetry/index.ts';

it('records nothing without an SDK', () => {
  withSpan('rollout', {}, (span) => {
    expect(span.isRecording()).toBe(false);
    expect(trace.isSpanContextValid(span.spanContext())).toBe(false);
  });
  expect(() => {
    recordRollout({ outcome: 'failed', reason: 'deadline', durationMs: 1 });
    recordReward({ name: 'right', value: 1 });
  }).not.toThrow();
});

it('leaves conversations out of spans by default', () => {
  const message = { role: 'assistant', content: 'secret' } as const;
  expect(
    contentAttributes([{ role: 'user', content: 'secret' }], { message, finish_reason: 'stop' }),
  ).toEqual({});
});

it.each([
  [null, 0],
  ['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 1],
  ['00-00000000000000000000000000000000-b7ad6b7169203331-01', 0],
  ['00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01', 0],
  ['00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01', 0],
  ['nonsense', 0],
])('takes the traceparent %s for %i links', (traceparent, count) => {
  expect(linksTo(traceparent)).toHaveLength(count);
});
