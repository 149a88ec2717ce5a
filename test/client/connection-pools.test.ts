import { expect, test } from 'vitest';
import { serve } from './server.ts';

test('calls do not wait for each other, even if one pool has too few connections for them', {
  tags: ['long'],
}, async () => {
  const calls = 2_100;
  const answers: (() => void)[] = [];
  const { client } = await serve((response) => {
    answers.push(() => response.setHeader('content-type', 'application/json').end('{"status":"ok"}'));
    // No request is answered before all have arrived.
    if (answers.length >= calls) for (const answer of answers.splice(0)) answer();
  });
  await Promise.all(Array.from({ length: calls }, () => client.health()));
  // The connections can be reused.
  const again = Array.from({ length: calls }, () => client.health());
  await expect(Promise.all(again)).resolves.toHaveLength(calls);
});

test('a closed client rejects calls and opens no connection', async () => {
  const { client, received } = await serve((response) => response.end('{}'));
  await client.close();
  await expect(client.health()).rejects.toMatchObject({ code: 'client_closed' });
  expect(received).toEqual([]);
});
