import { expect, it } from 'vitest';
import { killWorkers } from '../../bench/workers/kills.ts';

it('workers that are killed at random, again and again, lose no rollout and double none', {
  tags: ['long'],
  timeout: 180_000,
}, async () => {
  const result = await killWorkers(25);
  expect(result).toMatchObject({ lost: 0, doubled: 0 });
  expect(result.givenAgain).toBeGreaterThan(10);
});
