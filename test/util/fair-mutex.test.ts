import fc from 'fast-check';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { FairMutex, type Refusal } from '../../src/util/fair-mutex.ts';

const mutexOf = ({ limit = 100 } = {}) =>
  new FairMutex({ maxWaiting: limit, maxWaitMs: 1000, refusal: (why: Refusal) => new Error(why) });

/** A mutex that is held until it is released, and the tasks done in it, in order. */
function held(options: Parameters<typeof mutexOf>[0] = {}) {
  const mutex = mutexOf(options);
  const done: string[] = [];
  const gate = Promise.withResolvers<void>();
  const holder = mutex.run(() => gate.promise);
  const ask = (name: string, tenant: string, signal?: AbortSignal) =>
    mutex.run(
      async () => {
        done.push(name);
      },
      { tenant, signal },
    );
  return { mutex, done, ask, letGo: gate.resolve, holder };
}

afterEach(() => vi.useRealTimers());

describe('a fair mutex', () => {
  test('makes a single task wait for at most one task of each other tenant', async () => {
    const { done, ask, letGo } = held();
    const all = ['a1', 'a2', 'a3', 'a4'].map((name) => ask(name, 'a'));
    all.push(ask('b1', 'b'), ask('c1', 'c'), ask('c2', 'c'));
    letGo();
    await Promise.all(all);
    expect(done).toEqual(['a1', 'b1', 'c1', 'a2', 'c2', 'a3', 'a4']);
  });

  test('runs one task at a time, each once, in order per tenant, and no tenant twice while another waits', async () => {
    const tenants = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(tenants, async (asked) => {
        const { done, ask, letGo } = held();
        const all = asked.map((tenant, at) => ask(`${tenant}:${at}`, String(tenant)));
        letGo();
        await Promise.all(all);
        const left = new Map<number, number[]>();
        for (const [at, tenant] of asked.entries()) left.set(tenant, [...(left.get(tenant) ?? []), at]);
        let turns: number[] = [...left.keys()];
        for (const name of done) {
          const [tenant = -1, at] = name.split(':').map(Number);
          expect(tenant).toBe(turns[0]);
          expect(at).toBe(left.get(tenant)?.shift());
          turns = turns.slice(1);
          if (left.get(tenant)?.length) turns.push(tenant);
        }
        expect(turns).toEqual([]);
      }),
      { seed: 20261121, numRuns: 50 },
    );
  });

  test('continues after a task that fails', async () => {
    const { mutex, done, ask, letGo } = held();
    const failing = mutex.run(() => Promise.reject(new Error('broken')), { tenant: 'a' });
    const refused = expect(failing).rejects.toThrow('broken');
    const other = ask('b1', 'b');
    letGo();
    await Promise.all([refused, other]);
    expect(done).toEqual(['b1']);
  });

  test('limits waiting tasks: one tenant may have as many as slots are free', async () => {
    const { mutex, ask, letGo } = held({ limit: 5 });
    const taken = [1, 2, 3].map((at) => ask(`a${at}`, 'a'));
    await expect(ask('a4', 'a')).rejects.toThrow('share_full');
    taken.push(ask('b1', 'b'));
    await expect(ask('b2', 'b')).rejects.toThrow('share_full');
    taken.push(ask('c1', 'c'));
    await expect(ask('d1', 'd')).rejects.toThrow('queue_full');
    expect(mutex.waiting).toBe(5);
    letGo();
    await Promise.all(taken);
    expect(mutex.waiting).toBe(0);
  });

  test('frees the slot of an aborted task at once, and never runs it', async () => {
    const { mutex, done, ask, letGo } = held({ limit: 5 });
    const left = new AbortController();
    const leaving = ['a1', 'a2'].map((name) => ask(name, 'a', left.signal));
    const staying = ask('a3', 'a');
    await expect(ask('a4', 'a')).rejects.toThrow('share_full');
    left.abort(new Error('left'));
    for (const one of leaving) await expect(one).rejects.toThrow('left');
    expect(mutex.waiting).toBe(1);
    await expect(ask('a4', 'a', left.signal)).rejects.toThrow('left');
    const further = ask('a5', 'a');
    letGo();
    await Promise.all([staying, further]);
    expect(done).toEqual(['a3', 'a5']);
  });

  test('refuses a task that has waited too long, and continues with the others', async () => {
    vi.useFakeTimers();
    const { mutex, done, ask, letGo } = held();
    const early = ask('a1', 'a');
    const refused = expect(early).rejects.toThrow('timed_out');
    await vi.advanceTimersByTimeAsync(999);
    const late = ask('a2', 'a');
    await vi.advanceTimersByTimeAsync(1);
    await refused;
    expect(mutex.waiting).toBe(1);
    letGo();
    await late;
    expect(done).toEqual(['a2']);
  });
});
