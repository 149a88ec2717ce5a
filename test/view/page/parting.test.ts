import { describe, expect, it } from 'vitest';
import type { TurnView } from '../../../src/view/api.ts';
import { commonPrefix, partingOf } from '../../../src/view/page/rollout/parting.ts';

const user = (text: string): TurnView => ({ role: 'user', text });
const reply = (text: string, more: Partial<TurnView> = {}): TurnView => ({
  role: 'assistant',
  text,
  call: 0,
  ...more,
});
const tool = (id: string, written: string) => ({ tools: [{ id, name: 'find', arguments: written }] });

describe('the first place where conversations part', () => {
  it('is the first character of a reply that differs in any of them', () => {
    const start = user('Cancel order 7');
    const parting = partingOf([
      [start, reply('I will cancel it.')],
      [start, reply('I will cancel that.')],
      [start, reply('I cannot.')],
    ]);
    expect(parting).toEqual({ turns: 1, field: 'text', characters: 2 });
  });

  it('is in the reasoning before it is in the text', () => {
    const a = reply('yes', { reasoning: 'Easy. Yes.' });
    const b = reply('no', { reasoning: 'Easy. No.' });
    expect(partingOf([[a], [b]])).toEqual({ turns: 0, field: 'reasoning', characters: 6 });
  });

  it('is in the arguments of a tool, whose random ids do not count', () => {
    expect(
      partingOf([[reply('', tool('call_1', '{"id":7}'))], [reply('', tool('call_2', '{"id":7}'))]]),
    ).toBeNull();
    const parting = partingOf([
      [reply('', tool('call_1', '{"id":7}'))],
      [reply('', tool('call_2', '{"id":8}'))],
    ]);
    expect(parting).toMatchObject({ turns: 0, field: 'tools' });
  });

  it('is the end of the shorter one, and another role', () => {
    expect(partingOf([[user('a')], [user('a'), reply('b')]])).toEqual({
      turns: 1,
      field: 'end',
      characters: 0,
    });
    expect(partingOf([[user('a')], [reply('a')]])).toEqual({ turns: 0, field: 'role', characters: 0 });
  });

  it('does not exist among equal conversations, or with only one', () => {
    expect(partingOf([[user('a')], [user('a')]])).toBeNull();
    expect(partingOf([[user('a')]])).toBeNull();
    expect(partingOf([])).toBeNull();
  });

  it('is between characters, not within one', () => {
    expect(commonPrefix('a😀', 'a😁')).toBe(1);
    expect(commonPrefix('a😀', 'a😀')).toBe(3);
  });
});
