import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { requestLimits } from '../../../src/contract/index.ts';
import type { ByteSource } from '../../../src/service/json/byte-source.ts';
import { parseInSlices, wholeText } from '../../../src/service/json/parse.ts';
import { childrenOf } from '../../../src/service/json/scanner.ts';

const options = { seed: 5, numRuns: 1500 };

/** Bytes in chunks of the given lengths, repeated. */
function cut(content: Buffer, lengths: readonly number[]): ByteSource {
  return {
    bytes: content.length,
    read: async ({ start, end }) => content.subarray(start, end),
    async *pieces({ start, end }) {
      for (let at = start, index = 0; at < end; index++) {
        const length = lengths[index % lengths.length] ?? 1;
        yield content.subarray(at, Math.min(end, at + length));
        at += length;
      }
    },
  };
}

const lengths = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 4 });
const whole = fc.integer({ min: 1, max: 60 });
const space = fc.constantFrom('', ' ', '\n', '\r\n\t', '  ');

/** JSON in any style: white space anywhere, duplicate members, escapes, numbers in every form. */
const text: fc.Arbitrary<string> = fc.letrec<{ value: string; member: string }>((tie) => ({
  member: fc
    .tuple(space, fc.constantFrom('"a"', '"\\u0061"', '"__proto__"', '"1"', '"é\\""'), space, tie('value'))
    .map(([before, key, after, value]) => `${before}${key}${after}:${value}`),
  value: fc
    .tuple(
      space,
      fc.oneof(
        { maxDepth: 4 },
        fc.string({ unit: 'grapheme' }).map((string) => JSON.stringify(string)),
        fc.constantFrom(
          'null',
          'true',
          'false',
          '-0',
          '1e5',
          '0.25E-3',
          '"\\\\"',
          '"\\"]}"',
          '"\\ud83d"',
          '[]',
          '{ }',
        ),
        fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
        fc.array(tie('value'), { maxLength: 6 }).map((items) => `[${items.join(',')}]`),
        fc.array(tie('member'), { maxLength: 6 }).map((members) => `{${members.join(',')}}`),
      ),
      space,
    )
    .map((parts) => parts.join('')),
})).value;

/** The parsed value of a text, or undefined if it is not JSON. */
const outcome = (read: () => unknown) => {
  try {
    return { value: read() };
  } catch {
    return null;
  }
};

async function inSlices(bytes: Buffer, pieces: readonly number[], whole: number) {
  const source = cut(bytes, pieces);
  try {
    return { value: await parseInSlices(source, await wholeText(source), { whole }) };
  } catch {
    return null;
  }
}

describe('JSON read in slices', () => {
  test('equals the result of JSON.parse, wherever the bytes are cut', async () => {
    await fc.assert(
      fc.asyncProperty(text, lengths, whole, async (json, pieces, size) => {
        expect(await inSlices(Buffer.from(json), pieces, size)).toStrictEqual({ value: JSON.parse(json) });
      }),
      options,
    );
  });

  test('damaged text is refused exactly if JSON.parse refuses it', async () => {
    const damage = fc.tuple(
      fc.nat(),
      fc.constantFrom('', ',', ':', '"', '\\', '{', '}', '[', ']', '0', '-', 't', '\u0001', 'e'),
    );
    await fc.assert(
      fc.asyncProperty(
        text,
        fc.array(damage, { minLength: 1, maxLength: 2 }),
        lengths,
        whole,
        async (json, positions, pieces, size) => {
          let damaged = json;
          for (const [position, by] of positions) {
            const at = position % (damaged.length + 1);
            damaged = damaged.slice(0, at) + by + damaged.slice(at + (by === '' ? 1 : 0));
          }
          // A split surrogate pair is not text.
          const sent = Buffer.from(damaged);
          expect(await inSlices(sent, pieces, size)).toStrictEqual(
            outcome(() => JSON.parse(sent.toString())),
          );
        },
      ),
      { ...options, numRuns: 4000 },
    );
  });

  test('a long string is not cut within an escape or a character', async () => {
    const unit = fc.constantFrom('\\\\', '\\"', '\\u00e9', '\\ud83d\\ude00', '\\n', 'é', '😀', 'a');
    await fc.assert(
      fc.asyncProperty(fc.string({ unit, minLength: 4, maxLength: 60 }), whole, async (inside, size) => {
        for (const json of [`"${inside}"`, `["${inside}"]`, `{"a":"${inside}"}`, `"${inside}" `])
          expect(await inSlices(Buffer.from(json), [7], size)).toStrictEqual({ value: JSON.parse(json) });
        for (const json of [`"${inside}`, `"${inside}\\"`, `"${inside}\n${inside}"`, `"${inside}"${inside}"`])
          expect(await inSlices(Buffer.from(json), [7], size)).toBeNull();
      }),
      options,
    );
  });

  test('a byte order mark is skipped; invalid UTF-8 is refused', async () => {
    const mark = Buffer.from([0xef, 0xbb, 0xbf]);
    expect(await inSlices(Buffer.concat([mark, Buffer.from(' {"a":[1,2]}')]), [3], 4)).toEqual({
      value: { a: [1, 2] },
    });
    for (const bytes of [
      [0x22, 0xff, 0x22],
      [0x5b, 0x22, 0xc3, 0x22, 0x5d],
    ])
      expect(await inSlices(Buffer.from(bytes), [1], 1)).toBeNull();
  });

  const countChildren = async (json: string) => {
    const bytes = Buffer.from(json);
    let count = 0;
    for await (const children of childrenOf(cut(bytes, [1000]), { start: 0, end: bytes.length }))
      count += children.length;
    return count;
  };

  test('members of one object have a limit, at any depth', async () => {
    const limit = requestLimits.membersOfObject;
    const object = (count: number) => `{${'"a":1,'.repeat(count - 1)}"a":1}`;
    expect(await countChildren(object(limit))).toBe(limit);
    expect(await countChildren(`[${object(limit)},{"a":${object(limit)}}]`)).toBe(2);
    for (const json of [object(limit + 1), `[1,{"b":${object(limit + 1)}}]`])
      await expect(countChildren(json)).rejects.toMatchObject({
        status: 422,
        issues: [{ type: 'too_long' }],
      });
  });

  test('nesting has a limit', async () => {
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
    expect(await countChildren(nested(requestLimits.depth))).toBe(1);
    await expect(countChildren(nested(requestLimits.depth + 1))).rejects.toMatchObject({
      status: 422,
      issues: [{ type: 'too_deep' }],
    });
  });
});
