import { describe, expect, it } from 'vitest';
import { namedNumbers } from '../../src/cli/flags.ts';

describe('a flag that gives numbers to names', () => {
  const parse = namedNumbers(['replies', 'jobs']);

  it('accumulates over repeats, and the last value wins', () => {
    expect(parse('jobs=3', parse('replies=20', parse('jobs=1', {})))).toEqual({ replies: 20, jobs: 3 });
  });

  it.each(['jobs', 'jobs=', 'jobs=0', 'jobs=-1', 'jobs=1.5', 'jobs=1=2', 'job=1', 'toString=1'])(
    'refuses %s',
    (text) => {
      expect(() => parse(text, {})).toThrow('It must be');
    },
  );
});
