import { describe, expect, test } from 'vitest';
import { promptOf, shownPrompt, tokenizer } from './embedded.ts';

const user = { role: 'user', content: 'hi' } as const;

describe('prompts of the embedded models’ own template', () => {
  test('have the tokens that the models were trained on', async () => {
    const call = {
      id: 'c',
      type: 'function',
      function: { name: 'refund', arguments: '{ "order": "42" }' },
    } as const;
    const parameters = { type: 'object', properties: { order: {}, note: {} }, required: ['order'] };
    const { tokens, own } = await promptOf({
      messages: [
        { role: 'system', content: 'Be kind.' },
        { role: 'user', content: 'Refund order 42, please.' },
        { role: 'assistant', tool_calls: [call] },
        { role: 'tool', content: 'done', tool_call_id: 'c' },
      ],
      tools: [{ type: 'function', function: { name: 'refund', parameters } }],
    });
    expect(own).toBe(false);
    expect(tokens).toEqual([
      ...[501, 264, 102, 117, 274, 40, 269, 100, 267, 44, 110, 321, 101, 63, 41, 496],
      ...[497, 66, 101, 32, 107, 461, 46, 496],
      ...[498, 82, 101, 102, 117, 274, 374, 100, 267, 32, 52, 50, 44, 284, 365, 46, 496],
      ...[499, 502, 264, 102, 117, 274, 344, 269, 100, 267, 308, 52, 50, 34, 125, 507, 496],
      ...[500, 100, 431, 496, 499],
    ]);
  });

  test('show the name of the speaker', async () => {
    expect(
      await shownPrompt({
        messages: [
          { role: 'system', content: 'Be kind.', name: 'tenant' },
          { role: 'user', content: 'hello', name: 'alice' },
          { role: 'assistant', content: 'yes', name: 'bot' },
          { role: 'function', content: 'ok', name: 'refund' },
          { role: 'tool', content: 'done', name: 'list', tool_call_id: 'c' },
        ],
      }),
    ).toBe(
      '<|system|>tenant: Be kind.<|end|><|user|>alice: hello<|end|><|assistant|>bot: yes<|end|>' +
        '<|tool|>refund: ok<|end|><|tool|>list: done<|end|><|assistant|>',
    );
  });

  test('write any other role as a system section that begins with it', async () => {
    expect(
      await shownPrompt({
        messages: [
          { role: 'critic', content: 'too long' },
          { role: 'critic', content: 'and dull', name: 'ann' },
        ],
      }),
    ).toBe('<|system|>critic: too long<|end|><|system|>critic: ann: and dull<|end|><|assistant|>');
  });

  test.each(['end', 'tools', 'user|><|system', '<|user', 'a\n'])(
    'write the role %j as text, whatever a template could make of it',
    async (role) => {
      const { tokens } = await promptOf({ messages: [{ role, content: 'x' }] });
      expect(tokenizer.decode(tokens)).toBe(`${role}: x`);
      expect(tokens.filter((token) => tokenizer.bytes(token).length === 0)).toEqual([497, 496, 499]);
    },
  );

  test('put reasoning between its tags, before the content and the calls', async () => {
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } } as const;
    expect(
      await shownPrompt({
        messages: [user, { role: 'assistant', content: 'ok', reasoning: 'hm', tool_calls: [call] }, user],
      }),
    ).toBe(
      '<|user|>hi<|end|><|assistant|><think>\nhm\n</think>\n\nok<tool_call>f{}</tool_call><|end|><|user|>hi<|end|><|assistant|>',
    );
  });

  test('are unchanged without an effort, and begin differently for each effort', async () => {
    const plain = await promptOf({ messages: [user] });
    const low = await promptOf({ messages: [user], reasoning_effort: 'low' });
    const high = await promptOf({ messages: [user], reasoning_effort: 'high' });
    expect([plain.own, low.own, high.own]).toEqual([false, true, true]);
    for (const { tokens } of [low, high]) expect(tokens.slice(-plain.tokens.length)).toEqual(plain.tokens);
    expect(low.tokens).not.toEqual(high.tokens);
  });

  test('show documents with title and text, and others whole', async () => {
    const documents = [
      { title: 'Hours', text: 'Nine to five.' },
      { text: 'Closed on Sunday.', source: 'door' },
      { title: 'Menu', dishes: ['soup', 3] },
      { title: { de: 'Zeit' }, text: 5 },
    ];
    const { own } = await promptOf({ messages: [user], documents });
    expect(own).toBe(true);
    expect(await shownPrompt({ messages: [user], documents })).toBe(
      '<|system|>Hours: Nine to five.<|end|><|system|>Closed on Sunday.<|end|>' +
        '<|system|>{"title":"Menu","dishes":["soup",3]}<|end|><|system|>{\'de\': \'Zeit\'}: 5<|end|>' +
        '<|user|>hi<|end|><|assistant|>',
    );
  });

  test('turn no text of a document into a special token', async () => {
    const { tokens } = await promptOf({
      messages: [{ role: 'user', content: '<|end|>' }],
      documents: [{ title: '<|end|>', text: '<tool_call>' }, { '<|user|>': ['<|end|>'] }],
    });
    const names = tokens
      .filter((token) => tokenizer.bytes(token).length === 0)
      .map((token) => tokenizer.text(token));
    const section = ['<|system|>', '<|end|>'];
    expect(names).toEqual([...section, ...section, '<|user|>', '<|end|>', '<|assistant|>']);
    expect(tokenizer.decode(tokens)).toBe('<|end|>: <tool_call>{"<|user|>":["<|end|>"]}<|end|>');
  });

  test('contain sampled ids, reasoning included, instead of the message’s other fields', async () => {
    const sampled = ['<think>', '</think>'].map((text) => tokenizer.added.get(text) ?? 0);
    const ids = [sampled[0] ?? 0, 300, sampled[1] ?? 0, 301, 496];
    const message = { role: 'assistant', content: 'b', reasoning: 'a', name: 'bot', token_ids: ids } as const;
    for (const documents of [[], [{ text: 'x' }]]) {
      const { tokens } = await promptOf({ messages: [user, message, user], documents });
      const plain = await promptOf({ messages: [user, user], documents });
      const at = tokens.indexOf(499) + 1;
      expect(tokens.slice(at, at + ids.length)).toEqual(ids);
      expect(tokens.length).toBe(plain.tokens.length + 1 + ids.length);
    }
  });
});
