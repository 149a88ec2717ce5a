import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import type { Engine } from '../../../src/engines/engine.ts';
import { KeyStore, startService } from '../../../src/service/index.ts';
import { temporaryFolder } from '../../support/files.ts';
import type { Json } from '../harness.ts';

let engine: Engine;
beforeAll(async () => {
  engine = await createEmbeddedEngine({ threads: 1 });
});
afterAll(() => engine.close());

test('a cached prefix is used only for the same entity and salt, even during sampling', async () => {
  const dataFolder = await temporaryFolder();
  const service = await startService({ engine, dataFolder });
  onTestFinished(() => service.close());
  const keys = await KeyStore.open(dataFolder);
  onTestFinished(() => keys.close());
  const [a, b, all] = ['team-a', 'team-b', null].map((entity) => keys.create('', { entity }).key);
  /** The number of prompt tokens that came from the cache. */
  const cached = async (key: string | undefined, secret: string, salt?: string): Promise<number> => {
    const response = await fetch(`${service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify({
        messages: [
          { role: 'user', content: `${secret}, a secret of more than sixteen tokens, 1 2 3 4 5 6 7 8 9` },
        ],
        max_tokens: 4,
        ...(salt === undefined ? {} : { cache_salt: salt }),
      }),
    });
    const { usage }: Json = await response.json();
    return usage.prompt_tokens_details.cached_tokens;
  };

  const callers = [a, b, all].flatMap((key) => [undefined, 'x', 'y'].map((salt) => ({ key, salt })));
  for (const { key, salt } of callers) expect(await cached(key, 'one', salt)).toBe(0);
  for (const { key, salt } of callers) expect(await cached(key, 'one', salt)).toBeGreaterThanOrEqual(16);
  // Concurrently: parallel replies to one prompt share its cached prefix.
  const together = await Promise.all(callers.map(({ key, salt }) => cached(key, 'two', salt)));
  expect(together).toEqual(callers.map(() => 0));
});
