import { describe, expect, test } from 'vitest';
import { SharedWork } from '../../src/util/shared-work.ts';

describe('shared work', () => {
  test('runs once for all concurrent callers, and again for later ones', async () => {
    const shared = new SharedWork<string, number>();
    let begun = 0;
    const gate = Promise.withResolvers<void>();
    const begin = async () => {
      const number = ++begun;
      await gate.promise;
      return number;
    };
    const calls = [1, 2, 3].map(() => shared.join('a', begin, undefined));
    const other = shared.join('b', begin, undefined);
    gate.resolve();
    expect(await Promise.all([...calls, other])).toEqual([1, 1, 1, 2]);
    expect(await shared.join('a', begin, undefined)).toBe(3);
  });

  test('continues for the others when one caller aborts, even the first', async () => {
    const shared = new SharedWork<string, string>();
    const gate = Promise.withResolvers<void>();
    const begin = async (left: AbortSignal) => {
      await gate.promise;
      return left.aborted ? 'given up' : 'done';
    };
    const first = new AbortController();
    const leaving = shared.join('a', begin, first.signal);
    const staying = shared.join('a', begin, new AbortController().signal);
    first.abort(new Error('left'));
    await expect(leaving).rejects.toThrow('left');
    gate.resolve();
    expect(await staying).toBe('done');
  });

  test('is aborted when all callers have aborted, and started again for the next', async () => {
    const shared = new SharedWork<string, string>();
    let begun = 0;
    const begin = (left: AbortSignal) =>
      new Promise<string>((resolve, reject) => {
        if (++begun === 2) resolve('done');
        left.addEventListener('abort', () => reject(new Error('given up')));
      });
    const leave = new AbortController();
    const leaving = [1, 2].map(() => shared.join('a', begin, leave.signal));
    leave.abort(new Error('left'));
    for (const one of leaving) await expect(one).rejects.toThrow('left');
    expect(await shared.join('a', begin, undefined)).toBe('done');
  });

  test('fails for all waiting callers', async () => {
    const shared = new SharedWork<string, string>();
    const fail = () => Promise.reject(new Error('broken'));
    const calls = [1, 2].map(() => shared.join('a', fail, undefined));
    for (const one of calls) await expect(one).rejects.toThrow('broken');
  });
});
