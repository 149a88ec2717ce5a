import { setImmediate as nextTurn } from 'node:timers/promises';
import { SpanStatusCode } from '@opentelemetry/api';
import { describe, expect, it, onTestFinished } from 'vitest';
import { MartingaleError } from '../../src/contract/index.ts';
import { attribute, genAi, spanName, withSpan } from '../../src/telemetry/index.ts';
import { serve } from '../client/server.ts';
import { startRecording } from './recording-sdk.ts';

function record() {
  const { spans, stop } = startRecording();
  onTestFinished(stop);
  return spans;
}

describe('withSpan without an SDK', () => {
  it('returns what its function returns or throws: value, promise or error', async () => {
    const promise = Promise.resolve(2);
    expect(withSpan('run', {}, () => 1)).toBe(1);
    expect(withSpan('run', {}, () => promise)).toBe(promise);
    const error = new Error('no');
    expect(() =>
      withSpan('run', {}, () => {
        throw error;
      }),
    ).toThrow(error);
    await expect(withSpan('run', {}, () => Promise.reject(error))).rejects.toBe(error);
  });
});

describe('withSpan', () => {
  it('is the parent of the spans started in it, after an await and in parallel too', async () => {
    const spans = record();
    await withSpan(spanName.run, {}, async () => {
      await nextTurn();
      await Promise.all(
        ['a', 'b'].map((scenario) =>
          withSpan(`group ${scenario}`, { [attribute.environment]: scenario }, async () => {
            await nextTurn();
            await withSpan(spanName.modelCall(scenario), { [genAi.requestModel]: scenario }, nextTurn);
          }),
        ),
      );
    });
    expect(spans.map(({ name, parent }) => [name, parent])).toEqual([
      ['run', undefined],
      ['group a', 'run'],
      ['group b', 'run'],
      ['chat a', 'group a'],
      ['chat b', 'group b'],
    ]);
    expect(spans.map(({ ends }) => ends)).toEqual([1, 1, 1, 1, 1]);
    expect(spans[1]?.attributes).toEqual({ 'martingale.environment': 'a' });
    expect(spans[1]?.status).toBeUndefined();
  });

  it('ends when its promise settles, and accepts attributes until then', async () => {
    const spans = record();
    const gate = Promise.withResolvers<void>();
    const running = withSpan('step', {}, async (span) => {
      await gate.promise;
      span.setAttribute(attribute.reward, 0.5);
    });
    await nextTurn();
    expect(spans[0]?.ends).toBe(0);
    gate.resolve();
    await running;
    await nextTurn();
    expect(spans[0]).toMatchObject({ ends: 1, attributes: { [attribute.reward]: 0.5 } });
  });

  it.each([
    ['a thrown error', () => withSpan('tool', {}, thrower(new MartingaleError('bad_tool', 'broke')))],
    [
      'a rejection',
      () => withSpan('tool', {}, async () => thrower(new MartingaleError('bad_tool', 'broke'))()),
    ],
  ])('records %s, and lets it through', async (_, run) => {
    const spans = record();
    await expect((async () => run())()).rejects.toThrow('broke');
    await nextTurn();
    expect(spans[0]).toMatchObject({
      ends: 1,
      status: { code: SpanStatusCode.ERROR, message: 'broke' },
      attributes: { 'error.type': 'bad_tool' },
    });
    expect(spans[0]?.exceptions).toHaveLength(1);
  });

  it('names other errors by their class, and other values too', () => {
    const spans = record();
    expect(() => withSpan('tool', {}, thrower(new RangeError('far')))).toThrow('far');
    expect(() => withSpan('tool', {}, thrower('text'))).toThrow('text');
    expect(spans.map(({ attributes }) => attributes['error.type'])).toEqual(['RangeError', '_OTHER']);
  });
});

describe('a client’s call within a span', () => {
  it('sends the trace to the service, and none outside a span', async () => {
    const spans = record();
    const { client, received } = await serve((response) => response.end());
    await client.health();
    await withSpan(spanName.rollout, {}, () => client.health());
    expect(received[0]?.headers.traceparent).toBeUndefined();
    const { traceId, spanId } = spans[0]?.spanContext() ?? {};
    expect(received[1]?.headers.traceparent).toBe(`00-${traceId}-${spanId}-01`);
  });
});

function thrower(error: unknown): () => never {
  return () => {
    throw error;
  };
}
