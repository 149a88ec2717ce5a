import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { table } from '../../src/progress/comparison.ts';
import { clip, displayWidth, lineWidth, paint, plainText, truncate, wrap } from '../../src/progress/text.ts';

const anyText = fc.string({ unit: 'grapheme', maxLength: 60 });
const run = { seed: 7, numRuns: 300 };

describe('text on a terminal', () => {
  it('takes two cells for wide characters and none for marks', () => {
    expect(displayWidth('order 4821')).toBe(10);
    expect(displayWidth('注文')).toBe(4);
    expect(displayWidth('e\u0301')).toBe(1);
    expect(displayWidth('🙂')).toBe(2);
  });

  it('never grows wider than the room it is given', () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 1, max: 40 }), (text, width) => {
        expect(displayWidth(truncate(text, width))).toBeLessThanOrEqual(width);
        expect(lineWidth(clip([{ text }, { text, style: 'bold' }], width))).toBeLessThanOrEqual(width);
      }),
      run,
    );
  });

  it('wraps at spaces, loses nothing and keeps to the width', () => {
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

  it('has colours only where they are wanted', () => {
    const line = [{ text: 'reward ' }, { text: '0.97', style: 'green' as const }];
    expect(paint(line, false)).toBe('reward 0.97');
    expect(paint(line, true)).toBe('reward \u001b[32m0.97\u001b[39m');
  });
});

describe('table', () => {
  const columns = [{ title: 'name' }, { title: 'reward', align: 'right' as const }];
  const rows = [
    [{ text: 'before' }, { text: '0.33' }],
    [{ text: 'a very long name indeed' }, { text: '0.97' }],
  ];

  it('aligns its columns under a rule', () => {
    expect(table(columns, rows.slice(0, 1), 40).map(plainText)).toEqual([
      'name     reward',
      '───────────────',
      'before     0.33',
    ]);
  });

  it('cuts the widest column when there is too little room', () => {
    const lines = table(columns, rows, 20).map(plainText);
    expect(lines[3]).toBe('a very lon…     0.97');
    for (const line of lines) expect(displayWidth(line)).toBe(20);
  });
});
