import { describe, expect, it } from 'vitest';
import type { Constraint } from '../../../src/language/grammar/constraint.ts';
import { encodeReply } from '../../../src/language/grammar/encode-reply.ts';
import { compiler, format, randomChooser, replay, shown, tokenizer, walk } from './support.ts';

const { callToken, endToken } = format;
const [open, close] = [...tokenizer.special.values()].filter(
  (token) => token !== callToken && token !== endToken,
) as [number, number];
const answer = { open: null, grammar: { type: 'choice' as const, choices: ['yes', 'no'] }, repeat: false };
const thinking = (limit: number): Constraint => ({
  reasoning: { open, close, limit },
  branches: [answer],
});
const start = async (constraint: Constraint) => (await compiler.compile(constraint)).start();
const textTokens = tokenizer.vocabularySize - tokenizer.special.size;

describe('reasoning', () => {
  it('begins with its token, contains any text, and ends with its closing token', async () => {
    const state = await start(thinking(5));
    expect(() => state.legal()).toThrow(expect.objectContaining({ code: 'forced_tokens_due' }));
    expect(state.takeForced()).toEqual([open]);
    expect(state.freeText).toBe(true);
    const legal = [...state.legal().ids];
    expect(legal).toHaveLength(textTokens + 1);
    expect(legal).toEqual([...legal].sort((left, right) => left - right));
    expect(legal).toContain(close);
    for (const token of [open, endToken, callToken])
      expect(() => state.accept(token)).toThrow(expect.objectContaining({ code: 'illegal_token' }));
    state.accept(tokenizer.encode('h')[0]!);
    expect(state.takeForced()).toEqual([]);
    state.accept(close);
    expect(state.freeText).toBe(false);
    expect(state.takeForced()).toEqual([]);
    expect(shown(state.legal().ids)).toEqual(['n', 'y'].map((letter) => expect.stringMatching(`^${letter}`)));
  });

  it('is closed at its limit, together with the forced tokens after it', async () => {
    const constraint: Constraint = {
      reasoning: { open, close, limit: 2 },
      branches: [{ open: callToken, grammar: { type: 'choice', choices: ['go', 'stop'] }, repeat: false }],
    };
    const state = await start(constraint);
    state.takeForced();
    for (const letter of 'hi') {
      expect(state.takeForced()).toEqual([]);
      state.accept(tokenizer.encode(letter)[0]!);
    }
    expect(state.freeText).toBe(false);
    expect(() => state.accept(close)).toThrow(expect.objectContaining({ code: 'forced_tokens_due' }));
    expect(state.takeForced()).toEqual([close, callToken]);
  });

  it('of no tokens is opened and closed at once', async () => {
    const state = await start(thinking(0));
    expect(state.takeForced()).toEqual([open, close]);
  });

  it('may come before free text, and never exceeds its limit', async () => {
    const compiled = await compiler.compile({
      reasoning: { open, close, limit: 7 },
      branches: [{ open: null, grammar: { type: 'text' }, repeat: false }],
    });
    for (let seed = 0; seed < 40; seed++) {
      const tokens = walk(compiled, randomChooser(seed), 100);
      expect(tokens[0]).toBe(open);
      expect(tokens.indexOf(close)).toBeGreaterThan(0);
      expect(tokens.indexOf(close)).toBeLessThanOrEqual(8);
    }
  });

  it('is cloned with its phase and its length', async () => {
    const state = await start(thinking(2));
    const unopened = state.clone();
    state.takeForced();
    state.accept(tokenizer.encode('a')[0]!);
    const copy = state.clone();
    copy.accept(tokenizer.encode('b')[0]!);
    expect(copy.takeForced()).toEqual([close]);
    expect(state.takeForced()).toEqual([]);
    state.accept(close);
    state.accept(state.legal().ids[0]!);
    expect(shown(copy.legal().ids)).toHaveLength(2);
    expect(unopened.takeForced()).toEqual([open]);
  });

  it('is encoded as sampling writes it, full to its limit or empty', async () => {
    const text = 'Let me see.';
    for (const limit of [tokenizer.encode(text).length, 100]) {
      const constraint = thinking(limit);
      const compiled = await compiler.compile(constraint);
      for (const parts of [
        [open, text, close, 'yes'],
        [open, close, 'no'],
      ]) {
        const tokens = encodeReply({ parts, constraint }, compiled, tokenizer, format);
        expect(replay(compiled, tokens)).toBe(true);
        expect(tokens.filter((token) => token === open || token === close)).toEqual([open, close]);
        expect(tokenizer.decode(tokens)).toBe(parts.filter((part) => typeof part === 'string').join(''));
      }
    }
  });

  it.each<[string, number, (string | number)[]]>([
    ['has 4 tokens, but its constraint allows at most 3', 3, [open, 'q7X!', close, 'yes']],
    [`the constraint requires ${JSON.stringify(tokenizer.text(open))}`, 9, ['yes']],
    ['is not legal', 9, [open, 'a', endToken]],
    ['at <|end|>', 9, [open, 'a']],
    ['the constraint requires', 0, [open, callToken, 'a']],
  ])('is refused in a reply that leaves its constraint: %s', async (message, limit, parts) => {
    const constraint = thinking(limit);
    const compiled = await compiler.compile(constraint);
    expect(() => encodeReply({ parts, constraint }, compiled, tokenizer, format)).toThrow(message);
  });

  it.each<[string, NonNullable<Constraint['reasoning']>]>([
    ['open 65, which is not a special token', { open: 65, close, limit: 1 }],
    ['which is not a special token', { open, close: endToken, limit: 1 }],
    ['begins and ends with the same token', { open, close: open, limit: 1 }],
    ['limit -1', { open, close, limit: -1 }],
    ['limit 1.5', { open, close, limit: 1.5 }],
  ])('is refused with %s', async (message, reasoning) => {
    await expect(compiler.compile({ reasoning, branches: [answer] })).rejects.toThrow(message);
  });
});
