import { describe, expect, test } from 'vitest';
import { describeThrown, EnvironmentError, locationOfThrown } from '../../src/environment/index.ts';

const here = import.meta.filename;
const hide = (error: Error, property: string) =>
  Object.defineProperty(error, property, {
    get: () => {
      throw new Error('hidden');
    },
  });

test('the location is the frame of the error', () => {
  const { at, stack } = locationOfThrown(new Error('oh'));
  expect(at).toMatch(new RegExp(`^${here}:\\d+:\\d+$`));
  expect(stack).toMatch(/^Error: oh\n\s+at /);
});

test('martingale’s errors have the location of their cause, other errors their own', () => {
  const cause = new Error('inner');
  Object.assign(cause, { stack: 'Error: inner\n    at inner (/home/me/inner.ts:3:4)' });
  const outer = new Error('outer', { cause });
  outer.stack = 'Error: outer\n    at async outer (file:///home/me/outer.ts:5:6)';
  expect(locationOfThrown(new EnvironmentError('reward_failed', 'x threw', { cause })).at).toBe(
    '/home/me/inner.ts:3:4',
  );
  expect(locationOfThrown(outer)).toEqual({
    at: '/home/me/outer.ts:5:6',
    stack:
      'Error: outer\n    at async outer (file:///home/me/outer.ts:5:6)\n' +
      'Caused by: Error: inner\n    at inner (/home/me/inner.ts:3:4)',
  });
});

test('frames of packages, of Node and of the code that runs rollouts are skipped', () => {
  const error = new Error('oh');
  const own = new URL('../../src/', import.meta.url).pathname;
  const frames = (...files: string[]) => {
    error.stack = ['Error: oh', ...files.map((file) => `    at call (${file}:1:2)`)].join('\n');
    return locationOfThrown(error).at;
  };
  expect(frames('node:internal/x', '/a/node_modules/zod/x.js', `${own}model/x.ts`, '/a/agent.ts')).toBe(
    '/a/agent.ts:1:2',
  );
  expect(frames('/a/node_modules/zod/x.js', `${own}rollout/run-rollout.ts`, '/a/main.ts')).toBeUndefined();
  expect(frames('C:\\me\\node_modules\\zod\\x.js', 'C:\\me\\agent.ts')).toBe('C:\\me\\agent.ts:1:2');
  expect(frames('<anonymous>', 'evalmachine.<anonymous>')).toBeUndefined();
});

test('a plain object that is thrown has its message, or the names of its fields', () => {
  expect(describeThrown({ code: 'PGRST301', message: 'JWT expired' })).toBe('JWT expired');
  expect(describeThrown({ code: 'PGRST301', hint: null })).toBe('an object with code, hint');
  expect(describeThrown(Object.create(null))).toBe('something that cannot be written as text');
});

test('a message that looks like frames is not parsed as frames', () => {
  const error = new Error('see\n    at fake (/etc/passwd:1:1)');
  expect(locationOfThrown(error).at).toMatch(new RegExp(`^${here}:`));
});

describe('an unreadable value', () => {
  const loop = new Error('loop');
  loop.cause = loop;
  const endless = new Proxy(new Error('x'), {
    get: (target, property) => (property === 'cause' ? new Proxy(target, {}) : Reflect.get(target, property)),
    getPrototypeOf: () => {
      throw new Error('no prototype');
    },
  });
  test.each<[string, unknown, object]>([
    ['undefined', undefined, {}],
    ['text', 'oh', {}],
    ['an object without a prototype', Object.create(null), {}],
    ['a stack that throws', hide(new Error('x'), 'stack'), {}],
    ['a stack that is not text', Object.assign(new Error('x'), { stack: 7 }), {}],
    ['a cause that throws', hide(new Error('x'), 'cause'), { at: expect.any(String) }],
    ['a frozen error', Object.freeze(new Error('x')), { at: expect.any(String) }],
    ['an error that is its own cause', loop, { at: expect.any(String) }],
    ['a proxy whose causes never end', endless, { at: expect.any(String) }],
  ])('%s gives its readable parts', (_, thrown, expected) => {
    expect(locationOfThrown(thrown)).toMatchObject(expected);
    if (Object.keys(expected).length === 0) expect(locationOfThrown(thrown)).toEqual({});
  });

  test('stack, message and causes have maximum lengths', () => {
    let error = new Error('x'.repeat(1_000_000));
    for (let depth = 0; depth < 100; depth++) error = new Error('y'.repeat(10_000), { cause: error });
    error.stack += '\n    at z'.repeat(100_000);
    const { stack = '' } = locationOfThrown(error);
    expect(stack.length).toBeLessThan(5 * 4100);
    expect(stack.split('Caused by: ')).toHaveLength(5);
  });

  test('control characters of a message are made visible', () => {
    const { stack } = locationOfThrown(new Error('\u001b[2J'));
    expect(stack).not.toContain('\u001b');
  });
});
