import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { json, serve } from './server.ts';

test('answers that arrive together are spread over ticks of the event loop', async () => {
  const calls = 200;
  const held: ServerResponse[] = [];
  const { client } = await serve((response, request) => {
    held.push(response);
    if (held.length < calls) return;
    for (const each of held) json(['tiny'])(each, request);
  });
  /** Number of handled answers at each tick of other code. */
  const heard: number[] = [];
  let handled = 0;
  const listen = () => {
    heard.push(handled);
    if (handled < calls) setImmediate(listen);
  };
  setImmediate(listen);
  const call = async () => {
    await client.models.baseModels();
    handled++;
    const until = performance.now() + 1;
    while (performance.now() < until);
  };
  await Promise.all(Array.from({ length: calls }, call));
  heard.push(handled);
  const most = Math.max(...heard.map((count, at) => count - (heard[at - 1] ?? 0)));
  // Time slices get 8 ms per tick, and what follows each answer takes 1 ms.
  expect(most).toBeLessThanOrEqual(16);
});
