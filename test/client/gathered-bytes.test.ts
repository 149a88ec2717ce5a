import fc from 'fast-check';
import { expect, test } from 'vitest';
import { GatheredBytes } from '../../src/client/answer-body.ts';

test('chunks of any size are joined in order', () => {
  const size = fc.oneof(fc.nat(20), fc.nat(3000), fc.integer({ min: 16_000, max: 70_000 }));
  fc.assert(
    fc.property(fc.array(size, { maxLength: 30 }), (sizes) => {
      const whole = Buffer.from(sizes.map((_, index) => 'aä€😀'.repeat(index % 5)).join(''));
      const sent = Buffer.concat([
        whole,
        Buffer.alloc(
          sizes.reduce((sum, one) => sum + one, 0),
          'bcd',
        ),
      ]);
      const gathered = new GatheredBytes();
      let at = 0;
      for (const length of [...sizes, sent.length]) {
        gathered.add(sent.subarray(at, at + length));
        at = Math.min(sent.length, at + length);
        expect(gathered.bytes).toBe(at);
      }
      expect(gathered.text()).toBe(sent.toString());
    }),
    { seed: 7, numRuns: 200 },
  );
});

test('a million chunks of one byte use little more memory than their bytes', () => {
  const before = process.memoryUsage();
  const gathered = new GatheredBytes();
  for (let at = 0; at < 1e6; at++) gathered.add(Buffer.allocUnsafeSlow(1));
  global.gc?.();
  const after = process.memoryUsage();
  expect(after.rss - before.rss).toBeLessThan(64 * 2 ** 20);
  expect(gathered.text()).toHaveLength(1e6);
});
