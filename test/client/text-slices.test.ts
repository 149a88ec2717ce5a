import { expect, test } from 'vitest';
import { textInSlices } from '../../src/client/json-slices.ts';

test('a long text is encoded in slices that split no character', async () => {
  for (const shift of ['', 'a']) {
    const text = shift + '\u{1f600}'.repeat(300_000);
    const pieces = await textInSlices(text);
    if (typeof pieces === 'string' || pieces instanceof Uint8Array) throw new Error('it came in one piece');
    expect(pieces.length).toBeGreaterThan(1);
    expect(Buffer.concat(pieces).equals(Buffer.from(text))).toBe(true);
  }
  expect(await textInSlices('short')).toBe('short');
});
