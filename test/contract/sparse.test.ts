import fc from 'fast-check';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { optional, sparse, withDefault } from '../../src/contract/bounded.ts';
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
