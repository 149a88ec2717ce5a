import fc from 'fast-check';
import { expect, it } from 'vitest';
import { z } from 'zod';
import {
  chatCompletionRequestSchema,
  compiledChatRequestSchema,
  logprobsSchema,
} from '../../src/contract/index.ts';
import { testSeed } from '../support/size.ts';

const values = fc.oneof(
  fc.constantFrom(undefined, null, 'a', '', [1], ['a'], {}, { name: 'a' }, { name: 1 }, 0, -1, 1.5, true),
);
const messages = fc.array(
  fc.oneof(
    values,
    fc.constantFrom(
      { role: 'user', content: 'a' },
      { role: 'user', content: [{ type: 'text', text: 'a' }], other: 1 },
      { role: 'assistant', content: null, token_ids: [1, 2], tool_calls: null },
      { role: 'assistant', content: 'a', token_ids: [1, -1, 'a'] },
      { role: 'tool', content: 'a', tool_call_id: 'b' },
      { role: 'nobody', content: 'a' },
    ),
  ),
  { maxLength: 3 },
);
const fields = fc.constantFrom(...Object.keys(chatCompletionRequestSchema.shape), 'other', 'toString');
const bodies = fc.oneof(
  values,
  fc
    .tuple(messages, fc.dictionary(fields, values, { maxKeys: 4 }))
    .map(([messages, others]) => ({ messages, ...others })),
);

it('the compiled schema of chat requests gives the same values and issues', () => {
  fc.assert(
    fc.property(bodies, (body) => {
      const expected = chatCompletionRequestSchema.safeParse(body);
      const found = compiledChatRequestSchema().safeParse(body);
      expect(found.data).toStrictEqual(expected.data);
      expect(found.error?.issues).toEqual(expected.error?.issues);
    }),
    { seed: testSeed, numRuns: 1000 },
  );
});

it('every part of the schema of chat requests can be compiled', () => {
  expect(compiledChatRequestSchema()).not.toBe(chatCompletionRequestSchema);
});

const entries = fc.oneof(
  values,
  fc.record(
    {
      token: fc.constantFrom<unknown>('a', 'a'.repeat(2000), 1),
      logprob: fc.constantFrom<unknown>(0, -1.5, -1e300, null),
      bytes: fc.constantFrom<unknown>(null, [97], [1.5], ['a']),
      top_logprobs: fc.constantFrom<unknown>([], [{ token: 'b', logprob: -1, bytes: null }], null),
      token_id: fc.constantFrom<unknown>(1, null, 'a'),
      other: fc.constant(1),
    },
    { requiredKeys: [] },
  ),
  fc.constant({ token: 'a', logprob: -1, bytes: null, top_logprobs: [] }),
);

it('log-probabilities are read by shorter ways, with the same values and issues', () => {
  // The schema of the entries alone has no shortcut.
  const { content } = logprobsSchema.shape;
  const plain = content.unwrap().unwrap().element;
  fc.assert(
    fc.property(fc.array(entries, { maxLength: 3 }), (list) => {
      const expected = z.array(plain).safeParse(list);
      const found = content.safeParse(list);
      expect(found.data).toEqual(expected.data);
      expect(found.error?.issues).toEqual(expected.error?.issues);
    }),
    { seed: testSeed, numRuns: 1000 },
  );
});
