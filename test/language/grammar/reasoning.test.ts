import { describe, expect, it } from 'vitest';
import type { Constraint, LimitedReasoning } from '../../../src/language/grammar/constraint.ts';
import { encodeReply } from '../../../src/language/grammar/encode-reply.ts';
import { writtenCall } from '../../support/written-call.ts';
import {
  compiler,
  format,
  randomChooser,
  replay,
  shown,
  textBeginnings,
  tokenizer,
  walk,
} from './support.ts';

const { endToken } = format;
const [open, close, callToken] = ['<think>', '</think>', '<tool_call>'].map(
  (tag) => tokenizer.added.get(tag)!,
) as [number, number, number];
const written = { before: '<think>\n', close: '</think>', after: '\n\n' };
const lineBreak = '\n'.charCodeAt(0);
const begin = [open, lineBreak];
const end = [close, lineBreak, lineBreak];
const grammar = { type: 'choice' as const, choices: ['yes', 'no'] };
const thinking = (limit: number): Constraint => ({ reasoning: { ...written, limit }, grammar });
const start = async (constraint: Constraint) => (await compiler.compile(constraint)).start();

describe('reasoning', () => {
  it('begins with its tag, contains any text, and ends with its closing tag', async () => {
    const state = await start(thinking(5));
    expect(() => state.legal()).toThrow(expect.objectContaining({ code: 'forced_tokens_due' }));
    expect(state.takeForced()).toEqual(begin);
    expect(state.freeText).toBe(true);
    const legal = [...state.legal().ids];
    expect(legal).toHaveLength(textBeginnings);
    expect(legal).toEqual([...legal].sort((left, right) => left - right));
    expect(legal).toContain(close);
    for (const special of ['<|begin|>', '<|end|>', '<|user|>'])
      expect(() => state.accept(tokenizer.special.get(special)!)).toThrow(
        expect.objectContaining({ code: 'illegal_token' }),
      );
    state.accept(tokenizer.encode('h')[0]!);
    // Other tags are text in it.
    state.accept(callToken);
    expect(state.takeForced()).toEqual([]);
    state.accept(close);
    expect(state.takeForced()).toEqual([lineBreak, lineBreak]);
    expect(state.freeText).toBe(false);
    expect(shown(state.legal().ids)).toEqual(['n', 'y'].map((letter) => expect.stringMatching(`^${letter}`)));
  });

  it('ends where its closing tag is spelled in other tokens', async () => {
    const state = await start(thinking(50));
    state.takeForced();
    for (const letter of '</think>') {
      expect(state.takeForced()).toEqual([]);
      state.accept(letter.charCodeAt(0));
    }
    expect(state.takeForced()).toEqual([lineBreak, lineBreak]);
  });

  it('is closed at its limit, together with the forced tokens after it', async () => {
    const calls = {
      type: 'named_json' as const,
      alternatives: [
        { name: 'go', schema: {} },
        { name: 'stop', schema: {} },
      ],
      written: writtenCall,
    };
    const state = await start({ reasoning: { ...written, limit: 2 }, grammar: calls });
    state.takeForced();
    for (const letter of 'hi') {
      expect(state.takeForced()).toEqual([]);
      state.accept(tokenizer.encode(letter)[0]!);
    }
    expect(() => state.accept(close)).toThrow(expect.objectContaining({ code: 'forced_tokens_due' }));
    expect(state.takeForced()).toEqual([...end, callToken]);
    expect(state.freeText).toBe(false);
  });

  it('of no tokens is opened and closed at once', async () => {
    const state = await start(thinking(0));
    expect(state.takeForced()).toEqual([...begin, ...end]);
  });

  it('has no opening tag where the prompt has written it', async () => {
    const state = await start({ reasoning: { ...written, before: '', limit: 1 }, grammar });
    expect(state.takeForced()).toEqual([]);
    state.accept(tokenizer.encode('a')[0]!);
    expect(state.takeForced()).toEqual(end);
  });

  it('may come before free text, and never exceeds its limit', async () => {
    const compiled = await compiler.compile({
      reasoning: { ...written, limit: 7 },
      grammar: { type: 'text' },
    });
    for (let seed = 0; seed < 40; seed++) {
      const tokens = walk(compiled, randomChooser(seed), 100);
      expect(tokens.slice(0, begin.length)).toEqual(begin);
      const reasoning = tokens.slice(begin.length);
      const at = reasoning.indexOf(close);
      expect(at).toBeGreaterThanOrEqual(0);
      expect(at).toBeLessThanOrEqual(7);
      expect(reasoning.slice(at, at + end.length)).toEqual(end);
    }
  });

  it('is cloned with its phase and its length', async () => {
    const state = await start(thinking(2));
    const unopened = state.clone();
    state.takeForced();
    state.accept(tokenizer.encode('a')[0]!);
    const copy = state.clone();
    copy.accept(tokenizer.encode('b')[0]!);
    expect(copy.takeForced()).toEqual(end);
    expect(state.takeForced()).toEqual([]);
    state.accept(close);
    const closed = state.clone();
    expect(closed.takeForced()).toEqual(state.takeForced());
    state.accept(state.legal().ids[0]!);
    expect(shown(copy.legal().ids)).toHaveLength(2);
    expect(shown(closed.legal().ids)).toHaveLength(2);
    expect(unopened.takeForced()).toEqual(begin);
  });

  it('is encoded as sampling writes it, full to its limit or empty', async () => {
    const text = 'Let me see.';
    for (const limit of [tokenizer.encode(text).length, 100]) {
      const constraint = thinking(limit);
      const compiled = await compiler.compile(constraint);
      for (const parts of [
        [`<think>\n${text}`, close, '\n\nyes'],
        ['<think>\n', close, '\n\nno'],
      ]) {
        const tokens = encodeReply({ parts, constraint }, compiled, tokenizer, format);
        expect(replay(compiled, tokens)).toBe(true);
        expect(tokens.filter((token) => token === open || token === close)).toEqual([open, close]);
        expect(tokenizer.decode(tokens)).toBe(
          parts.map((part) => (typeof part === 'string' ? part : tokenizer.text(part))).join(''),
        );
      }
    }
  });

  it.each<[string, number, (string | number)[]]>([
    ['has 4 tokens, but its constraint allows at most 3', 3, ['<think>\nq7X!', close, '\n\nyes']],
    ['has 4 tokens, but its constraint allows at most 3', 3, ['<think>\nq7X!</think>\n\nyes']],
    ['the constraint requires "<think>"', 9, ['yes']],
    ['is not legal', 9, ['<think>\na', endToken]],
    ['at <|end|>', 9, ['<think>\na']],
    ['the constraint requires "</think>"', 0, ['<think>\n', callToken, 'a']],
    ['the constraint requires', 9, ['<think>\na', close, 'yes']],
  ])('is refused in a reply that leaves its constraint: %s', async (message, limit, parts) => {
    const constraint = thinking(limit);
    const compiled = await compiler.compile(constraint);
    expect(() => encodeReply({ parts, constraint }, compiled, tokenizer, format)).toThrow(message);
  });

  it.each<[string, LimitedReasoning]>([
    ['empty close', { ...written, close: '', limit: 1 }],
    ['limit -1', { ...written, limit: -1 }],
    ['limit 1.5', { ...written, limit: 1.5 }],
  ])('is refused with %s', async (message, reasoning) => {
    await expect(compiler.compile({ reasoning, grammar })).rejects.toThrow(message);
  });
});
