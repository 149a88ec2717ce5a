import fc from 'fast-check';
import { expect, it } from 'vitest';
import { MemorySource } from '../../../src/service/json/byte-source.ts';
import { memberSource } from '../../../src/service/json/parse.ts';

const text = fc.string({ unit: fc.constantFrom('"', '\\', '[', ']', '{', '}', ':', ',', 's') });
const name = fc.oneof(fc.constantFrom('seed', 'see', '__proto__'), text);
const seedIn = (json: string) => memberSource(new MemorySource(Buffer.from(json)), 'seed');

it('finds the text of a member of a body, even if its name occurs elsewhere', async () => {
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.oneof(text, fc.integer(), fc.constant(null)),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.array(fc.tuple(name, tie('value')), { maxLength: 3 }).map((members) => Object.fromEntries(members)),
    ),
  }));
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(name, value), { maxLength: 5 }),
      fc.boolean(),
      async (members, spaced) => {
        const gap = spaced ? ' \n' : '';
        const json = `{${members
          .map(([key, inner]) => `${gap}${JSON.stringify(key)}${gap}:${gap}${JSON.stringify(inner)}${gap}`)
          .join(',')}}`;
        const last = members.findLast(([key]) => key === 'seed');
        expect(await seedIn(json)).toBe(last && JSON.stringify(last[1]));
      },
    ),
    { seed: 20261121, numRuns: 2000 },
  );
  expect(await seedIn('{"\\u0073eed": 9223372036854775807}')).toBe('9223372036854775807');
  expect(await seedIn('[{"seed":1}]')).toBe(undefined);
});
