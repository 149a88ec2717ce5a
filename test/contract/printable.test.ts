import { inspect } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MartingaleError, printable, printableLines } from '../../src/contract/index.ts';

const active = /[\p{Control}\p{Bidi_Control}\u2028\u2029]/u;
const parts = [
  '\u001b',
  '\u009b',
  '\u009d',
  '\u009c',
  '\u0007',
  '[',
  ']',
  ';',
  '1',
  'm',
  'a',
  '\\',
  '\n',
  ' ',
];
const hostile = fc.array(fc.constantFrom(...parts, '\u202e', '\u2028', '\t', 'ü'), { maxLength: 40 });

describe('a text from another machine', () => {
  it('is shown without its commands for the terminal', () => {
    expect(printable('a\u001b[2Jb\nc\rd')).toBe('ab c d');
    expect(printable('\u001b[31;1mred\u001b[0m \u009b4mline')).toBe('red line');
    expect(printable('\u001b]8;;http://here.invalid\u001b\\link\u001b]8;;\u0007')).toBe('link');
    expect(printable('\u001bcgone \u202egnp.exe')).toBe('gone  gnp.exe');
    expect(printableLines('one\n\ttwo\r\n')).toBe('one\n  two \n');
  });

  it('never contains a command for the terminal', () => {
    const run = { seed: 7, numRuns: 2000 };
    fc.assert(
      fc.property(hostile, (given) => {
        const text = given.join('');
        expect(printable(text)).not.toMatch(active);
        expect(printableLines(text).replaceAll('\n', '')).not.toMatch(active);
        expect(printableLines(text).split('\n')).toHaveLength(text.split('\n').length);
      }),
      run,
    );
  });

  it('takes linear time even if it consists of command starts', () => {
    const beginnings = ['\u001b]a', '\u001b[;', '\u001b ', '\u009d', '\u009b1', '\u001b]', '\u001b['];
    const before = process.threadCpuUsage();
    for (const beginning of beginnings) printable(beginning.repeat(100_000));
    const { user, system } = process.threadCpuUsage(before);
    // Where each beginning is followed to the text's end, one of these takes 30 s.
    expect(user + system).toBeLessThan(3e6);
  });

  it('can be part of an error message, which is shown unchanged', () => {
    const error = new MartingaleError('bad', 'it said \u001b]0;title\u0007\u009b2J\u202ehello\nand no more');
    expect(error.message).toBe('it said  hello\nand no more');
    expect(inspect(error).replaceAll('\n', '')).not.toMatch(active);
  });
});
