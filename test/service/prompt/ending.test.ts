import { describe, expect, test } from 'vitest';
import type { Message } from '../../../src/contract/index.ts';
import { promptOf, refusalOf, shown, shownPrompt, tokenizer } from './embedded.ts';

const user: Message = { role: 'user', content: 'hi' };
const assistant: Message = { role: 'assistant', content: 'I am ' };

describe('a prompt ends', () => {
  test('with the tokens that begin a reply, unless they are omitted', async () => {
    const plain = await promptOf({ messages: [user] });
    expect(await promptOf({ messages: [user], add_generation_prompt: true })).toEqual(plain);
    const without = await promptOf({ messages: [user], add_generation_prompt: false });
    expect([shown(without.tokens), without.own]).toEqual(['<|user|>hi<|end|>', true]);
  });

  test.each([undefined, [{ text: 'd' }]])('with the open final message, documents %j', async (documents) => {
    const before = documents ? '<|system|>d<|end|>' : '';
    const continued = { messages: [user, assistant], documents, continue_final_message: true };
    const { tokens, own } = await promptOf(continued);
    expect([shown(tokens), own]).toEqual([`${before}<|user|>hi<|end|><|assistant|>I am `, true]);
    expect(await promptOf({ ...continued, add_generation_prompt: false })).toMatchObject({ tokens, own });
    expect(await shownPrompt({ ...continued, messages: [user] })).toBe(`${before}<|user|>hi`);
    const thought: Message = { role: 'assistant', content: 'so', reasoning: 'hm' };
    expect(await shownPrompt({ ...continued, messages: [thought] })).toBe(
      `${before}<|assistant|><think>\nhm\n</think>\n\nso`,
    );
    const empty: Message = { role: 'assistant', content: '' };
    expect(await shownPrompt({ ...continued, messages: [user, empty] })).toBe(
      `${before}<|user|>hi<|end|><|assistant|>`,
    );
  });

  test.each([undefined, [{ text: 'd' }]])('with open sampled ids, documents %j', async (documents) => {
    const ids = [...tokenizer.encode('ab'), 300];
    for (const sampled of [ids, [...ids, 496]]) {
      const message: Message = { role: 'assistant', content: 'ab', token_ids: sampled };
      const { tokens } = await promptOf({
        messages: [user, message],
        continue_final_message: true,
        ...(documents ? { documents } : {}),
      });
      expect(tokens.slice(-4)).toEqual([499, ...ids].slice(-4));
    }
  });

  test('only the final message is left open', async () => {
    expect(await shownPrompt({ messages: [assistant, assistant], continue_final_message: true })).toBe(
      '<|assistant|>I am <|end|><|assistant|>I am ',
    );
  });

  test('a reply cannot both begin and continue', async () => {
    const refusal = await refusalOf({
      messages: [assistant],
      add_generation_prompt: true,
      continue_final_message: true,
    });
    expect(refusal).toContain('add_generation_prompt');
    expect(refusal).toContain('continue_final_message');
  });

  test('a continued reply cannot reason first', async () => {
    expect(
      await refusalOf({ messages: [assistant], continue_final_message: true, reasoning_effort: 'low' }),
    ).toContain('reasoning_effort');
  });

  test.each<Partial<Extract<Message, { role: 'assistant' }>>>([
    { tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] },
    { function_call: { name: 'f', arguments: '{}' } },
  ])('a message with calls cannot be continued: %j', async (fields) => {
    const messages: Message[] = [user, { content: '', ...fields, role: 'assistant' }];
    expect(await refusalOf({ messages, continue_final_message: true })).toContain('messages.1.tool_calls');
  });
});

describe('the first token', () => {
  test('is the tokenizer’s own with add_special_tokens', async () => {
    const plain = await promptOf({ messages: [user] });
    const { tokens, own } = await promptOf({ messages: [user], add_special_tokens: true });
    expect([tokens, own]).toEqual([[506, ...plain.tokens], true]);
    expect(tokenizer.text(506)).toBe('<|begin|>');
    expect(await promptOf({ messages: [user], add_special_tokens: false })).toEqual(plain);
  });
});

describe('truncation', () => {
  const long: Message = { role: 'user', content: '0123456789'.repeat(60) };

  test('keeps the last tokens', async () => {
    const whole = await promptOf({ messages: [long] });
    const cut = await promptOf({ messages: [long], truncate_prompt_tokens: 7 });
    expect(cut).toMatchObject({ tokens: whole.tokens.slice(-7), own: true });
  });

  test('does not change a prompt that is short enough', async () => {
    const whole = await promptOf({ messages: [long] });
    for (const truncate_prompt_tokens of [whole.tokens.length, 9223372036854776000])
      expect(await promptOf({ messages: [long], truncate_prompt_tokens })).toEqual(whole);
    expect(await promptOf({ messages: [user], truncate_prompt_tokens: -1 })).toEqual(
      await promptOf({ messages: [user] }),
    );
  });

  test('at -1 leaves tokens for the reply in the context of 512 tokens', async () => {
    const lengthOf = async (fields: object) =>
      (await promptOf({ messages: [long], truncate_prompt_tokens: -1, ...fields })).tokens.length;
    expect(await lengthOf({})).toBe(511);
    expect(await lengthOf({ max_tokens: 100 })).toBe(412);
    expect(await lengthOf({ max_tokens: 100, max_completion_tokens: 12 })).toBe(500);
  });

  test('cannot leave an empty prompt', async () => {
    expect(await refusalOf({ messages: [user], truncate_prompt_tokens: 0 })).toMatch(
      /truncate_prompt_tokens: .* or -1/,
    );
    expect(
      await refusalOf({ messages: [user], truncate_prompt_tokens: -1, max_completion_tokens: 512 }),
    ).toContain('truncate_prompt_tokens');
  });
});
