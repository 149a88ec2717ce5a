import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clip, displayWidth, lineWidth, paint, truncate, wrap } from '../../src/progress/text.ts';

const anyText = fc.string({ unit: 'grapheme', maxLength: 60 });
const run = { seed: 7, numRuns: 300 };

describe('text on a terminal', () => {
  it('takes two cells for wide characters and none for marks', () => {
    expect(displayWidth('order 4821')).toBe(10);
    expect(displayWidth('注文')).toBe(4);
    expect(displayWidth('e\u0301')).toBe(1);
    expect(displayWidth('🙂')).toBe(2);
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
