import { expect, test } from 'vitest';
import { RecentIds } from '../../src/client/resources/follow-events.ts';

test('the newest ids are recognized, and an endless list of ids uses bounded memory', () => {
  const ids = new RecentIds(10);
  for (let n = 0; n < 1000; n++) {
    expect(ids.add(`e-${n}`)).toBe(true);
    for (let back = 0; back < Math.min(n, 10); back++) expect(ids.add(`e-${n - back}`)).toBe(false);
    expect(ids.size).toBeLessThanOrEqual(20);
  }
  expect(ids.add('e-1')).toBe(true);
});
