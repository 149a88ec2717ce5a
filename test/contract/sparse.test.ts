import fc from 'fast-check';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { optional, sparse, withDefault } from '../../src/contract/bounded.ts';
import { logprobsSchema } from '../../src/contract/index.ts';
import { testSeed } from '../support/size.ts';

const fields = {
  needed: z.union([z.string(), z.array(z.number())]),
  count: optional(z.number().int().min(0)),
  inner: optional(z.strictObject({ name: z.string() })),
  nothing: z.null().optional(),
};

const values = fc.oneof(
  fc.constantFrom(undefined, null, 'a', '', [1], ['a'], {}, { name: 'a' }, { name: 1 }, 0, -1, 1.5, true),
);
const bodies = fc.oneof(
  values,
  fc.dictionary(fc.constantFrom(...Object.keys(fields), 'other', '__proto__', 'toString'), values),
);

it('a sparse schema gives the same values and issues as the schema it is made of', () => {
  const plain = z.object(fields);
  const skipping = sparse(z.object(fields));
  fc.assert(
    fc.property(bodies, (body) => {
      const expected = plain.safeParse(body);
      const found = skipping.safeParse(body);
      expect(found.data).toStrictEqual(expected.data);
      expect(found.error?.issues).toEqual(expected.error?.issues);
    }),
    { seed: testSeed, numRuns: 1000 },
  );
});

it('a sparse schema fills in defaults of absent fields', () => {
  const schema = sparse(z.object({ size: withDefault(z.number(), 3) }));
  expect(schema.parse({})).toEqual({ size: 3 });
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

it('log-probabilities without alternatives are accepted at once, with the same values and issues', () => {
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
