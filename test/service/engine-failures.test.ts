import { expect, test } from 'vitest';
import { EngineError } from '../../src/engines/engine.ts';
import { start } from './harness.ts';

test.each([
  ['an unsupported option of the engine is named', 'unsupported_option', 422, 'secret'],
  ['a fault of the engine is the service’s own, and stays inside', 'engine_failed', 500, undefined],
  ['a request to a dead engine may be repeated', 'worker_died', 503, undefined],
  ['weights that were deleted on the way are not found', 'checkpoint_missing', 404, undefined],
])('%s', async (_, code, status, message) => {
  const { chat, engine, log } = await start();
  engine.failGeneration = new EngineError(code, 'secret');
  const answer = await chat({});
  expect(answer.status).toBe(status);
  expect(answer.body.error.code).toBe(status === 500 ? 'internal_error' : code);
  expect(answer.headers.get('retry-after')).toBe(status === 503 ? '1' : null);
  if (message)
    expect(answer.body.detail).toEqual([
      { loc: ['request'], msg: message, type: code, ctx: {}, input: null },
    ]);
  else expect(JSON.stringify(answer.body)).not.toContain('secret');
  const logged = expect.objectContaining({
    event: 'request_failed',
    error: 'secret',
    request: answer.headers.get('x-request-id'),
  });
  if (status >= 500) expect(log).toContainEqual(logged);
  else expect(log).not.toContainEqual(logged);
});
