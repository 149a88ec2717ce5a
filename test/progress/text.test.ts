import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clip, displayWidth, lineWidth, paint, truncate, wrap } from '../../src/progress/text.ts';

const anyText = fc.string({ unit: 'grapheme', maxLength: 60 });
const run = { seed: 7, numRuns: 300 };

describe('text on a terminal', () => {
  it.each([
    ['order 4821', 10],
    ['注文', 4],
    ['e\u0301', 1],
    ['🙂', 2],
    ['✅❌⚡⭐⌚', 10],
    ['🫠', 2],
    // With text presentation, then with the selector of emoji presentation.
    ['❤ ☃ 🌡 ©', 7],
    ['❤\ufe0f ☃\ufe0f 🌡\ufe0f ©\ufe0f', 11],
    ['1\ufe0f\u20e3', 2],
    ['a\ufe0f', 1],
    // One picture of several: a family, a skin tone, flags of a country and of a region.
    ['👨‍👩‍👧', 2],
    ['👍🏽', 2],
    ['🇩🇪🇫🇷', 4],
    ['🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}', 2],
    ['\u1112\u1161\u11ab', 2],
    ['क्ष', 2],
  ])('counts the cells of %s', (text, cells) => {
    expect(displayWidth(text)).toBe(cells);
  });

  it('gives a character that the reader sees as one at most two cells, and a text the sum of them', () => {
    const segmenter = new Intl.Segmenter();
    fc.assert(
      fc.property(anyText, (text) => {
        const widths = [...segmenter.segment(text)].map(({ segment }) => displayWidth(segment));
        expect(Math.max(0, ...widths)).toBeLessThanOrEqual(2);
        expect(displayWidth(text)).toBe(widths.reduce((sum, width) => sum + width, 0));
      }),
      run,
    );
  });

  it('never cuts within a character that the reader sees as one', () => {
    expect(truncate('👨‍👩‍👧👨‍👩‍👧', 3)).toBe('👨‍👩‍👧…');
    expect(wrap('👨‍👩‍👧👨‍👩‍👧✅', 4)).toEqual(['👨‍👩‍👧👨‍👩‍👧', '✅']);
  });

  it('is never wider than the given width', () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 1, max: 40 }), (text, width) => {
        expect(displayWidth(truncate(text, width))).toBeLessThanOrEqual(width);
        expect(lineWidth(clip([{ text }, { text, style: 'bold' }], width))).toBeLessThanOrEqual(width);
      }),
      run,
    );
  });

  it('wraps at spaces within the width and loses nothing', () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 2, max: 40 }), (text, width) => {
        const lines = wrap(text, width);
        expect(lines.join('').replaceAll(' ', '')).toBe(text.replaceAll(' ', ''));
        for (const line of lines) expect(displayWidth(line)).toBeLessThanOrEqual(width);
      }),
      run,
    );
    expect(wrap('do not send order 4821', 11)).toEqual(['do not send', 'order 4821']);
  });

  it('has colors only if requested', () => {
    const line = [{ text: 'reward ' }, { text: '0.97', style: 'green' as const }];
    expect(paint(line, false)).toBe('reward 0.97');
    expect(paint(line, true)).toBe('reward \u001b[32m0.97\u001b[39m');
  });
});
