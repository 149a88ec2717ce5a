import { describe, expect, onTestFinished, test } from 'vitest';
import { builtInLanguage } from '../../../src/engines/embedded/built-in/built-in-language.ts';
import { ConversationCodec } from '../../../src/engines/embedded/conversation-codec.ts';
import { type CheckerOptions, ConstraintChecker } from '../../../src/language/compiler/checker.ts';
import type { Constraint } from '../../../src/language/grammar/constraint.ts';
import { randomChooser, textOf, walk } from '../grammar/support.ts';

const open = (options: Omit<CheckerOptions, 'language'> = {}) => {
  const checker = new ConstraintChecker({ language: builtInLanguage().shared, ...options });
  onTestFinished(() => checker.close());
  return checker;
};
const words = (text: string): Constraint => textOf({ type: 'choice', choices: [text, `${text}!`] });

const empty: Constraint = textOf({ type: 'choice', choices: [] });

describe('the thread that compiles constraints', () => {
  test('alternates between tenants: one constraint does not wait for all of another tenant', async () => {
    const checker = open();
    const order: string[] = [];
    const ask = (tenant: string, name: string) =>
      checker.plan(words(name), { tenant }).then(() => order.push(name));
    const all = [1, 2, 3, 4, 5].map((at) => ask('a', `a${at}`));
    all.push(ask('b', 'b1'));
    await Promise.all(all);
    expect(order.slice(0, 3)).toContain('b1');
  });

  test('frees the slots of aborted calls, and does not compile for them', async () => {
    const checker = open({ maxWaiting: 4 });
    const leave = new AbortController();
    const first = checker.plan(words('first'));
    const leaving = ['x', 'y'].map((name) => checker.plan(words(name), { signal: leave.signal }));
    await expect(checker.plan(words('z'))).rejects.toMatchObject({ code: 'constraints_busy' });
    leave.abort(new Error('left'));
    for (const one of leaving) await expect(one).rejects.toThrow('left');
    await Promise.all([first, checker.plan(words('z')), checker.plan(words('w'))]);
  });

  test('allows a limited number of waiting constraints, and fewer of one tenant', async () => {
    const checker = open({ maxWaiting: 4 });
    const ask = (tenant: string, name: string) => checker.plan(words(name), { tenant });
    const taken = [ask('a', '1'), ask('a', '2'), ask('a', '3')];
    await expect(ask('a', '4')).rejects.toThrow(/this key/);
    taken.push(ask('b', '5'), ask('c', '6'));
    await expect(ask('d', '7')).rejects.toThrow(/Too many constraints are waiting/);
    await Promise.all(taken);
  });

  test('compiles once for all calls with the same constraint', async () => {
    const checker = open({ maxWaiting: 2 });
    const constraint = words('same');
    // More than may wait: they count as one.
    const plans = await Promise.all(Array.from({ length: 50 }, () => checker.plan(constraint)));
    expect(new Set(plans).size).toBe(1);
    expect(await checker.plan(constraint)).toBe(plans[0]);
    expect((await checker.plan(words('same'))).name).toBe(plans[0]?.name);
  });

  test('refuses an invalid constraint and continues', async () => {
    const checker = open();
    await expect(checker.plan(empty)).rejects.toMatchObject({ code: 'grammar_empty' });
    await expect(checker.plan(words('fine'))).resolves.toMatchObject({ isFree: false, reasoning: null });
  });

  test('compiles an enum of 30,000 values in the time that a constraint may take', async () => {
    const schema = { enum: Array.from({ length: 30_000 }, (_, value) => value) };
    expect((await open().plan(textOf({ type: 'json_schema', schema }))).graph).not.toBeNull();
  });

  test('makes plans in shared memory that other threads assemble to the same replies', async () => {
    const checker = open();
    const [there, here] = [
      new ConversationCodec(new Map(), builtInLanguage()).compiler,
      new ConversationCodec(new Map(), builtInLanguage()).compiler,
    ];
    const schema = { type: 'object', properties: { a: { type: 'integer' }, b: { enum: ['x', 'yz'] } } };
    for (const grammar of [
      { type: 'json_schema' as const, schema },
      { type: 'regex' as const, pattern: '(ab|a[b-d]{1,3})+' },
    ]) {
      const constraint = textOf(grammar);
      const plan = structuredClone(await checker.plan(constraint));
      expect(plan.graph?.nodes.table.buffer).toBeInstanceOf(SharedArrayBuffer);
      const [compiled, assembled] = [await there.compile(constraint), here.assemble(plan)];
      for (let seed = 0; seed < 20; seed++)
        expect(walk(assembled, randomChooser(seed), 200)).toEqual(walk(compiled, randomChooser(seed), 200));
    }
  });

  test('fails waiting calls at once when it is closed', async () => {
    const checker = open();
    const waiting = ['a', 'b', 'c'].map((name) => checker.plan(words(name)));
    const ends = Promise.allSettled(waiting);
    await checker.close();
    for (const end of await ends) expect(end).toMatchObject({ reason: { code: 'engine_closed' } });
    await expect(checker.plan(words('d'))).rejects.toMatchObject({ code: 'engine_closed' });
  });
});
