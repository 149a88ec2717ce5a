import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CallLog } from '../../src/trajectory/call-log.ts';
import type { RecordedCall } from '../../src/trajectory/recorded-call.ts';
import { countRepeats, repeatedShare } from '../../src/trajectory/replies.ts';

test.each([
  [[], 0],
  [[1, 2, 3], 0],
  [[1, 2, 3, 4, 5, 6], 0],
  [[1, 2, 3, 4, 1, 2, 3, 4], 1 / 5],
  [[7, 7, 7, 7, 7, 7], 2 / 3],
  [[12, 3, 4, 5, 1, 23, 4, 5], 0],
])('of %j it is %f', (tokens, share) => {
  expect(repeatedShare(tokens)).toBeCloseTo(share, 12);
});

test('a doubled reply has at least as many repeats as the reply has sequences', () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 5 }), { minLength: 4, maxLength: 40 }), (tokens) => {
      const once = countRepeats(tokens);
      const twice = countRepeats([...tokens, ...tokens]);
      expect(twice.sequences).toBe(2 * tokens.length - 3);
      expect(twice.repeated).toBeGreaterThanOrEqual(once.repeated + once.sequences);
    }),
    { seed: 20261121 },
  );
});

test('what a trajectory says of its replies stays when their tokens go', () => {
  const call = (index: number, token_ids: number[]): RecordedCall => ({
    ...{ index, messages: [], tools: undefined, promptTokens: 1, model: 'e/p/n' },
    choice: { index: 0, message: { role: 'assistant', content: 'a' }, finish_reason: 'stop', token_ids },
  });
  const log = (...replies: number[][]) => {
    const made = new CallLog();
    for (const [index, ids] of replies.entries()) made.add(call(index, ids), [1, index]);
    return made;
  };
  const replies = [
    [1, 2, 3, 4, 1, 2, 3, 4],
    [7, 7, 7, 7, 7, 7],
  ];
  const kept = log(...replies);
  const before = kept.replies;
  expect(before.repeats).toEqual({ sequences: 8, repeated: 3 });
  kept.release(false);
  expect(kept.calls.map(({ choice }) => choice.token_ids)).toEqual([undefined, undefined]);
  expect(kept.replies).toEqual(before);
  expect(kept.sampledTokens).toBe(14);
  expect(log(...replies).replies.hash).toBe(before.hash);
  // The same tokens in other replies are other replies.
  for (const others of [replies.toReversed(), [replies.flat(), []], [replies.flat()]])
    expect(log(...others).replies.hash).not.toBe(before.hash);
});
