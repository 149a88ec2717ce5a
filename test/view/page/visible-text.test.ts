import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cut, oneLine, visibleRuns } from '../../../src/view/page/parts/visible-text.ts';

const shown = (text: string) =>
  visibleRuns(text)
    .map((run) => (run.kind === 'mark' ? `[${run.text}]` : run.text))
    .join('');

describe('text that a model wrote', () => {
  it('shows control characters, so that a terminal command is read and not obeyed', () => {
    expect(shown('\u001b[31mred\u001b[0m\u0007')).toBe('[ESC][31mred[ESC][0m[BEL]');
    expect(shown('a\r\nb\tc')).toBe('a[CR]\nb\tc');
  });

  it('shows what would turn the direction of the text around it', () => {
    expect(shown('ab\u202egpj.exe\u202c')).toBe('ab[U+202E]gpj.exe[U+202C]');
    expect(visibleRuns('\u202e')).toEqual([
      { kind: 'mark', text: 'U+202E', title: 'right-to-left override (U+202E)' },
    ]);
  });

  it('shows text that is hidden in tags and variation selectors, and counts repeats', () => {
    expect(shown('a\u{e0041}\u{e0042}b')).toBe('a[U+E0041][U+E0042]b');
    expect(shown(`a${'\u200b'.repeat(5000)}b`)).toBe('a[U+200B ×5000]b');
    expect(shown('\ud800x')).toBe('[U+D800]x');
  });

  it('keeps a few marks of a letter and counts the rest', () => {
    expect(shown(`e${'\u0301'.repeat(40)}!`)).toBe(`e${'\u0301'.repeat(4)}[+36 marks]!`);
  });

  it('leaves languages and emoji as they are', () => {
    for (const text of ['नमस्ते', 'می‌خواهم', 'שלום', '👩‍👩‍👧 ❤️ 🇨🇭', 'Tiếng Việt', '<b>&amp;</b>'])
      expect(visibleRuns(text)).toEqual([{ kind: 'text', text }]);
  });

  it('loses nothing of what can be seen', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme-ascii' }), (text) => {
        expect(shown(text)).toBe(text);
      }),
      { seed: 7 },
    );
  });

  it('cuts between characters, also where one takes two places', () => {
    expect(cut('ab😀c', 3)).toBe('ab');
    expect(cut('ab😀c', 4)).toBe('ab😀');
    expect(cut('ab', 4)).toBe('ab');
  });

  it('fits on one line for lists', () => {
    expect(oneLine('one\n\n  two\tthree\u001b')).toBe('one ↵ two threeESC');
    expect(oneLine('x'.repeat(1_000_000), 5)).toBe('xxxxx …');
  });
});
