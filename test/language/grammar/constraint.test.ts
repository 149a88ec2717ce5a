import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { GrammarCompiler } from '../../../src/language/compiler/compiler.ts';
import type { Constraint } from '../../../src/language/grammar/constraint.ts';
import { encodeReply } from '../../../src/language/grammar/encode-reply.ts';
import { writtenCall } from '../../support/written-call.ts';
import {
  compiler,
  format,
  randomChooser,
  replay,
  SEED,
  schemaOf,
  shown,
  textBeginnings,
  textOf,
  tokenizer,
  walk,
  walkOn,
} from './support.ts';

const { endToken } = format;
const callToken = tokenizer.added.get('<tool_call>')!;
const order = schemaOf(z.object({ order: z.string().regex(/^\d{4}$/) }));
const tools = {
  type: 'named_json' as const,
  alternatives: [
    { name: 'refund', schema: order },
    { name: 'refund_all', schema: schemaOf(z.object({})) },
    { name: 'track', schema: order },
  ],
  written: writtenCall,
};
const required: Constraint = textOf(tools);
const auto: Constraint = textOf({
  type: 'text_or_calls',
  content: { type: 'text' },
  calls: { ...tools, written: { ...writtenCall, between: '' } },
  tag: writtenCall.beforeName,
  reasoning: null,
});
const answers: Constraint = textOf({ type: 'choice', choices: ['sorry', 'done', 'done, code "7"\n'] });
const start = async (constraint: Constraint) => (await compiler.compile(constraint)).start();
const illegal = { code: 'illegal_token' };

describe('a constraint', () => {
  it('takes all tokens without alternatives at once, including the tags and the end token', async () => {
    const state = await start(required);
    expect(shown(state.takeForced())).toEqual(['<tool_call>']);
    expect(shown(state.legal().ids)).toEqual(['t', 're']);
    state.accept(tokenizer.encode('t')[0]!);
    expect(tokenizer.decode(state.takeForced())).toBe('rack{"order":"');
    for (const digit of '4821') {
      expect(state.takeForced()).toEqual([]);
      expect(shown(state.legal().ids)).toEqual([...'0123456789']);
      state.accept(digit.charCodeAt(0));
    }
    const last = state.takeForced();
    expect(tokenizer.decode(last)).toBe('"}</tool_call>');
    expect(last.at(-1)).toBe(endToken);
    expect(state.ended).toBe(true);
  });

  it('distinguishes names with the same prefix', async () => {
    const compiled = await compiler.compile(required);
    for (const text of ['refund{"order":"0001"}', 'refund_all{}']) {
      const tokens = encodeReply(
        { parts: [callToken, text, '</tool_call>'], constraint: required },
        compiled,
        tokenizer,
        format,
      );
      expect(tokenizer.decode(tokens)).toBe(`<tool_call>${text}</tool_call>`);
      expect(replay(compiled, tokens)).toBe(true);
    }
  });

  it('allows free text to end or call at any point, and calls to repeat', async () => {
    const state = await start(auto);
    const everything = textBeginnings + 1;
    expect(state.takeForced()).toEqual([]);
    expect(state.legal().ids).toHaveLength(everything);
    state.accept(tokenizer.encode('h')[0]!);
    expect(state.legal().ids).toHaveLength(everything);
    state.accept(callToken);
    for (const token of [...tokenizer.encode('t')]) state.accept(token);
    state.takeForced();
    for (const digit of '4821') state.accept(digit.charCodeAt(0));
    expect(shown(state.takeForced())).toEqual(['"', '}', '</tool_call>']);
    expect([...state.legal().ids].sort()).toEqual([endToken, callToken].sort());
    state.accept(callToken);
    expect(state.ended).toBe(false);
  });

  it('ends a reply after a text of its own grammar, or after a call that does not repeat', async () => {
    const state = await start(
      textOf({
        type: 'text_or_calls',
        content: { type: 'choice', choices: ['a', 'ab'] },
        calls: { ...tools, alternatives: [{ name: 'x', schema: {} }] },
        tag: writtenCall.beforeName,
        reasoning: null,
      }),
    );
    const called = state.clone();
    expect(shown(state.legal().ids)).toEqual(['a', '<tool_call>']);
    called.accept(callToken);
    expect(tokenizer.decode(called.takeForced())).toBe('x{');
    called.accept(tokenizer.encode('}')[0]!);
    expect(shown(called.takeForced())).toEqual(['</tool_call>', '<|end|>']);
    state.accept(tokenizer.encode('a')[0]!);
    expect(shown(state.legal().ids)).toEqual(['b', '<|end|>']);
    state.accept(tokenizer.encode('b')[0]!);
    expect(state.takeForced()).toEqual([endToken]);
  });

  it('ends at once if only the empty text is allowed', async () => {
    const state = await start(textOf({ type: 'choice', choices: [''] }));
    expect(state.takeForced()).toEqual([endToken]);
  });

  it('writes alternatives unchanged, with quotes, line ends and prefixes of others', async () => {
    const compiled = await compiler.compile(answers);
    for (const text of ['sorry', 'done', 'done, code "7"\n']) {
      const tokens = encodeReply({ parts: [text], constraint: answers }, compiled, tokenizer, format);
      expect(tokenizer.decode(tokens)).toBe(text);
    }
  });

  it('distinguishes alternatives that differ inside a character', async () => {
    const state = await start(textOf({ type: 'choice', choices: ['né', 'nè'] }));
    expect(state.takeForced().flatMap((token) => [...tokenizer.bytes(token)])).toEqual([0x6e, 0xc3]);
    expect([...state.legal().ids]).toEqual([0xa8, 0xa9]);
    state.accept(0xa9);
    expect(state.takeForced()).toEqual([endToken]);
  });

  it('allows no decision while forced tokens are due', async () => {
    const state = await start(textOf({ type: 'choice', choices: ['done'] }));
    const due = expect.objectContaining({ code: 'forced_tokens_due' });
    expect(() => state.legal()).toThrow(due);
    expect(() => state.accept(tokenizer.encode('d')[0]!)).toThrow(due);
  });

  it('refuses illegal tokens and all tokens after the end', async () => {
    const state = await start(answers);
    expect(() => state.accept(endToken)).toThrow(expect.objectContaining(illegal));
    expect(() => state.accept(callToken)).toThrow(expect.objectContaining(illegal));
    expect(() => state.accept(tokenizer.encode('x')[0]!)).toThrow(expect.objectContaining(illegal));
    expect(() => state.accept(9999)).toThrow(expect.objectContaining(illegal));
    state.accept(tokenizer.encode('s')[0]!);
    state.takeForced();
    expect(state.ended).toBe(true);
    expect(() => state.accept(endToken)).toThrow(expect.objectContaining({ code: 'reply_ended' }));
    expect(() => state.legal()).toThrow(expect.objectContaining({ code: 'reply_ended' }));
  });

  it.each<[string, Constraint]>([
    ['at least one alternative', textOf({ type: 'choice', choices: [] })],
    [
      'called "a"',
      textOf({
        ...tools,
        alternatives: [
          { name: 'a', schema: {} },
          { name: 'a', schema: {} },
        ],
      }),
    ],
    [
      'begin with <tool_call>',
      textOf({
        type: 'text_or_calls',
        content: { type: 'regex', pattern: '[<a-z].*' },
        calls: tools,
        tag: writtenCall.beforeName,
        reasoning: null,
      }),
    ],
    ['allows no value', textOf({ type: 'json_schema', schema: { $ref: '#' } })],
    [
      'allows no value, because it never ends',
      textOf({
        type: 'json_schema',
        schema: { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] },
      }),
    ],
  ])('is refused with %s', async (message, constraint) => {
    await expect(compiler.compile(constraint)).rejects.toThrow(message);
  });
});

describe('a clone', () => {
  it('has the same state and continues independently', async () => {
    const compiled = await compiler.compile(auto);
    for (let seed = 0; seed < 4; seed++) {
      const state = compiled.start();
      const choose = randomChooser(seed);
      for (let step = 0; step < 12; step++) {
        state.takeForced();
        if (state.ended) break;
        const copy = state.clone();
        const legal = state.legal();
        expect(copy.legal()).toBe(legal);
        expect(copy.freeText).toBe(state.freeText);
        const other = walkOn(copy, randomChooser(seed + step), 30);
        expect(walkOn(state.clone(), randomChooser(seed + step), 30)).toEqual(other);
        expect(state.legal()).toBe(legal);
        state.accept(legal.ids[choose(legal.size)]!);
      }
    }
  });

  it('keeps forced tokens that are due', async () => {
    const state = await start(required);
    const copy = state.clone();
    expect(copy.takeForced()).toEqual(state.takeForced());
    copy.accept(tokenizer.encode('t')[0]!);
    copy.takeForced();
    expect(shown(state.legal().ids)).toEqual(['t', 're']);
    expect(state.clone().ended).toBe(false);
  });
});

describe('legal tokens', () => {
  it('leave out a token that begins a longer one whose rest is forced', async () => {
    const legal = async (choices: string[]) =>
      shown((await start(textOf({ type: 'choice', choices }))).legal().ids);
    expect(await legal(['the', 'you'])).toEqual(expect.not.arrayContaining(['t', 'y', 'th']));
    expect(await legal(['re', 'x'])).toEqual(['x', 're']);
    expect(await legal(['re', 'ra', 'x'])).toEqual(['r', 'x', 're']);
    expect(await legal(['r', 're', 'x'])).toEqual(['r', 'x', 're']);
  });

  it('are ascending, at least two at a decision, and each can be taken', async () => {
    const compiled = await compiler.compile(auto);
    for (let seed = 0; seed < 20; seed++) {
      const state = compiled.start();
      const choose = randomChooser(seed);
      for (let step = 0; step < 60; step++) {
        state.takeForced();
        if (state.ended) break;
        const legal = state.legal().ids;
        expect(legal.length).toBeGreaterThan(1);
        expect([...legal]).toEqual([...new Set(legal)].sort((left, right) => left - right));
        state.accept(legal[choose(legal.length)]!);
      }
    }
  });

  it('depend only on the tokens so far, not on earlier samples or the compiler', async () => {
    const other = new GrammarCompiler(tokenizer, format);
    for (const constraint of [required, auto, answers]) {
      const warm = await compiler.compile(constraint);
      const walked = Array.from({ length: 30 }, (_, seed) => walk(warm, randomChooser(seed)));
      const cold = await other.compile(constraint);
      const again = walked.map((_, index) => walk(cold, randomChooser(29 - index))).reverse();
      expect(again).toEqual(walked);
    }
  });
});

describe('a compiler', () => {
  it('reads a constraint once, however many replies it has', () => {
    const own = new GrammarCompiler(tokenizer, format);
    let reads = 0;
    const constraint: Constraint = {
      get grammar() {
        reads++;
        return { type: 'choice' as const, choices: ['yes', 'no'] };
      },
    };
    const plan = own.plan(constraint);
    const first = reads;
    expect(own.plan(constraint)).toBe(plan);
    expect(reads).toBe(first);
    expect(own.plan({ ...constraint })).toBe(plan);
  });

  it('compiles equal constraints once and drops those unused for long', async () => {
    const own = new GrammarCompiler(tokenizer, format);
    const numbered = (number: number) => own.compile(textOf({ type: 'choice', choices: [`${number}`] }));
    const first = await numbered(0);
    expect(await numbered(0)).toBe(first);
    for (let number = 1; number <= 256; number++) await numbered(number);
    expect(await numbered(0)).not.toBe(first);
    expect(shown(first.start().takeForced())).toEqual(['0', '<|end|>']);
  });
});

describe('encoding a reply', () => {
  it('writes unconstrained replies and free text as the tokenizer does', async () => {
    const parts = ['Your order ', 'is here.', callToken, 'refund{"order":"4821"}</tool_call>'];
    const plain = encodeReply({ parts, constraint: null }, null, tokenizer, format);
    expect(plain).toEqual([
      ...tokenizer.encode('Your order is here.'),
      callToken,
      ...tokenizer.encode('refund{"order":"4821"}</tool_call>'),
      endToken,
    ]);
    const compiled = await compiler.compile(auto);
    const tokens = encodeReply({ parts, constraint: auto }, compiled, tokenizer, format);
    expect(tokens.slice(0, tokens.indexOf(callToken))).toEqual(tokenizer.encode('Your order is here.'));
    expect(replay(compiled, tokens)).toBe(true);
  });

  it('gives, for a sampled text, tokens that sampling could give', async () => {
    const compiled = await compiler.compile(auto);
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        fc.array(fc.constantFrom('refund{"order":"0420"}', 'refund_all{}')),
        (text, calls) => {
          const parts = [text, ...calls.flatMap((call) => [callToken, `${call}</tool_call>`])];
          const tokens = encodeReply({ parts, constraint: auto }, compiled, tokenizer, format);
          expect(replay(compiled, tokens)).toBe(true);
          expect(tokenizer.decode(tokens)).toBe(
            text.toWellFormed() + calls.map((call) => `<tool_call>${call}</tool_call>`).join(''),
          );
        },
      ),
      { seed: SEED, numRuns: 200 },
    );
  });

  it.each<[string, (string | number)[]]>([
    [
      'at "5\\"}</tool_call>", after "track{\\"order\\":\\"1234"',
      [callToken, 'track{"order":"12345"}</tool_call>'],
    ],
    ['no legal token fits', [callToken, 'track{"order":"12x4"}']],
    ['the constraint requires', [callToken, 'track{"id":"1234"}']],
    ['at <|end|>', [callToken]],
    ['at <tool_call>', [callToken, 'refund_all{}</tool_call>', callToken, 'refund_all{}</tool_call>']],
    ['the constraint requires "<tool_call>"', ['hello']],
  ])('says where it leaves its constraint: %s', async (message, parts) => {
    const compiled = await compiler.compile(required);
    expect(() => encodeReply({ parts, constraint: required }, compiled, tokenizer, format)).toThrow(message);
  });
});
