import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chunksOf } from '../../../src/view/page/tokens/chunks.ts';
import {
  entropyLevel,
  probabilityLevel,
  probabilityShades,
  signedLevel,
} from '../../../src/view/page/tokens/shades.ts';

describe('shades of tokens', () => {
  it('a token is shaded more the less probable it was', () => {
    const levels = [1, 0.95, 0.9, 0.5, 0.2, 0.1, 0.05, 0.005, 0.0001].map((p) =>
      probabilityLevel(Math.log(p)),
    );
    expect(levels).toEqual([0, 0, 0, 1, 2, 2, 3, 4, 5]);
    expect(probabilityLevel(Number.NEGATIVE_INFINITY)).toBe(5);
    expect(probabilityLevel(null)).toBe(0);
    expect(probabilityShades.map(({ label }) => label)).toEqual([
      '≥ 90 %',
      '≥ 50 %',
      '≥ 10 %',
      '≥ 1 %',
      '≥ 0.1 %',
      '< 0.1 %',
    ]);
  });

  it('an advantage is shaded by its sign, and by its size beside the largest', () => {
    expect([-2, -1, -0.1, 0, 0.1, 1.5, 2].map((value) => signedLevel(value, 2))).toEqual([
      -3, -2, -1, 0, 1, 3, 3,
    ]);
    expect(signedLevel(null, 2)).toBe(0);
    expect(signedLevel(1, 0)).toBe(0);
  });

  it('entropy is shaded from a tenth of a nat', () => {
    expect([null, 0, 0.1, 0.7, 1.2, 2.5, 9].map(entropyLevel)).toEqual([0, 0, 1, 2, 3, 4, 5]);
  });
});

describe('parts of a long sequence', () => {
  const token = fc.constantFrom('a', ' b', '\n', '.\n\n', '');

  it('follow each other without gaps, and none is long', () => {
    fc.assert(
      fc.property(fc.array(token, { maxLength: 3000, size: 'max' }), (texts) => {
        const chunks = chunksOf(texts);
        expect(chunks.flatMap(({ from, to }) => texts.slice(from, to))).toEqual(texts);
        for (const { from, to } of chunks) expect(to - from).toBeLessThanOrEqual(384 + 48);
      }),
      { seed: 7, numRuns: 30 },
    );
  });

  it('begin on a new line where there is one near', () => {
    const texts = Array.from({ length: 1000 }, (_, at) => (at % 10 === 9 ? '\n' : 'word '));
    for (const { to } of chunksOf(texts).slice(0, -1)) expect(texts[to - 1]).toBe('\n');
  });
});
