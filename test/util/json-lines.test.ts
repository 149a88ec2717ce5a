import fc from 'fast-check';
import { expect, test } from 'vitest';
import { byteLines, type LineLimit } from '../../src/util/json-lines.ts';

/** The lines of bytes that arrive in chunks of one reused buffer, as from a file. */
async function linesOf(bytes: Buffer, pieceLength: number, limit: LineLimit = {}) {
  const pieces = async function* () {
    const buffer = Buffer.alloc(pieceLength);
    for (let at = 0; at < bytes.length; at += pieceLength) {
      const length = bytes.copy(buffer, 0, at, at + pieceLength);
      yield buffer.subarray(0, length);
    }
  };
  const lines: { line: string; number: number }[] = [];
  for await (const line of byteLines(pieces(), limit))
    lines.push({ line: line.bytes.toString('utf8'), number: line.number });
  return lines;
}

test('lines end only at line feeds, wherever the pieces are cut', async () => {
  const text = fc
    .array(fc.constantFrom('a', 'ü', '\n', '\r\n', '\r', '\u2028', '"', ' '))
    .map((parts) => parts.join(''));
  await fc.assert(
    fc.asyncProperty(text, fc.integer({ min: 1, max: 9 }), async (given, pieceLength) => {
      const expected = given
        .split('\n')
        .map((line, index) => ({ line: line.replace(/\r$/, ''), number: index + 1 }));
      // Text after the last line feed is a line if there is any.
      if (given === '' || given.endsWith('\n')) expected.pop();
      expect(await linesOf(Buffer.from(given), pieceLength)).toEqual(expected);
    }),
    { seed: 5, numRuns: 1000 },
  );
});

test('a byte order mark before the first line is removed', async () => {
  expect(await linesOf(Buffer.from('\ufeffa\n\ufeffb'), 2)).toEqual([
    { line: 'a', number: 1 },
    { line: '\ufeffb', number: 2 },
  ]);
});

test('a line that is too long is refused by its number before it is kept', async () => {
  const limit = { maxBytes: 4, tooLong: (number: number) => new Error(`line ${number}`) };
  expect(await linesOf(Buffer.from('abcd\nab\n'), 3, limit)).toHaveLength(2);
  for (const pieceLength of [1, 3, 100])
    await expect(linesOf(Buffer.from('abcd\nabcde\n'), pieceLength, limit)).rejects.toThrow('line 2');
});
