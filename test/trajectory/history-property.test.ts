import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Choice, Message } from '../../src/contract/index.ts';
import { Trajectory } from '../../src/trajectory/index.ts';
import { render } from '../model/fake-service.ts';

/** A call goes on from a conversation that an earlier one left, or begins one; `asText` loses the sampled ids. */
const callArbitrary = fc.record({
  from: fc.nat({ max: 12 }),
  fresh: fc.boolean(),
  asText: fc.boolean(),
  user: fc.string({ maxLength: 3 }),
  // Reserved characters collide on purpose: two conversations may look alike for long.
  sampled: fc.array(fc.integer({ min: 97, max: 98 }), { minLength: 1, maxLength: 4 }),
});

test('whatever the calls, each sampled token is in one history once, after the prompt it was sampled after', () => {
  fc.assert(
    fc.property(fc.array(callArbitrary, { maxLength: 25 }), (calls) => {
      const trajectory = new Trajectory();
      const conversations: Message[][] = [];
      const recorded = new Map<Choice, number[]>();
      for (const { from, fresh, asText, user, sampled } of calls) {
        const base = fresh ? [] : (conversations[from % Math.max(1, conversations.length)] ?? []);
        const messages: Message[] = [...base, { role: 'user', content: user }];
        const token_ids = [...sampled, 1_000_000];
        const content = String.fromCodePoint(...sampled);
        const choice: Choice = {
          index: 0,
          message: { role: 'assistant', content },
          finish_reason: 'stop',
          token_ids,
        };
        const { index, callId } = trajectory.beginCall();
        const promptTokenIds = render(messages);
        trajectory.record(callId, { index, messages, tools: undefined, choice, promptTokenIds, model: 'm' });
        recorded.set(choice, promptTokenIds);
        const reply: Message = asText
          ? { role: 'assistant', content: `${content}!` }
          : { role: 'assistant', content, token_ids };
        conversations.push([...messages, reply]);
      }

      expect(trajectory.choices).toHaveLength(recorded.size);
      expect(new Set(trajectory.choices).size).toBe(recorded.size);
      for (const { entries } of trajectory.histories) {
        for (const [at, entry] of entries.entries()) {
          if (!('message' in entry)) continue;
          const before = entries
            .slice(0, at)
            .map(
              (earlier): Message =>
                'message' in earlier ? { role: 'assistant', token_ids: earlier.token_ids } : earlier,
            );
          expect(render(before)).toEqual(recorded.get(entry));
        }
      }
    }),
    { seed: 20261121, numRuns: 300 },
  );
});
