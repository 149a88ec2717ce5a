import { describe, expect, it } from 'vitest';
import { messageSchema } from '../../../src/contract/chat/messages.ts';
import type { Tool } from '../../../src/contract/index.ts';
import { callForms } from '../../../src/language/call-forms.ts';
import { toTurn } from '../../../src/language/chat/conversation.ts';
import { readChatFormat } from '../../../src/language/chat/read-chat-format.ts';
import { ReplyParser } from '../../../src/language/chat/reply-parser.ts';
import { GrammarCompiler } from '../../../src/language/compiler/compiler.ts';
import { hasContentGrammar, toConstraint } from '../../../src/language/constraint/request-constraint.ts';
import { encodeReply } from '../../../src/language/grammar/encode-reply.ts';
import { readTokenizer } from '../../../src/language/tokenizer/read-tokenizer.ts';
import { toReply } from '../../../src/service/jobs/example-conversation.ts';
import { randomChooser } from '../grammar/support.ts';

const folderOf = (family: string) => new URL(`../fixtures/${family}`, import.meta.url).pathname;

function open(family: string) {
  const tokenizer = readTokenizer(folderOf(family));
  return { tokenizer, format: readChatFormat(folderOf(family), tokenizer) };
}

const tool = (name: string): Tool => ({
  type: 'function',
  function: { name, parameters: { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] } },
});

const written = {
  llama3: '{"name": "add", "parameters": {"a": 1}}; {"name": "find", "parameters": {"a":2}}',
  qwen3:
    '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>\n<tool_call>\n{"name": "find", "arguments": {"a":2}}\n</tool_call>',
  // Its template writes no white space between tags and calls.
  smollm2:
    '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call><tool_call>{"name": "find", "arguments": {"a":2}}</tool_call>',
  lfm2: '<|tool_call_start|>[add(a=1), find(a=2)]<|tool_call_end|>',
};

describe.each(Object.entries(written))('required calls of a %s checkpoint', (family, text) => {
  const { tokenizer, format } = open(family);
  const constraintOf = (choice: 'required' | { type: 'function'; function: { name: string } }) =>
    toConstraint(
      { tools: [tool('add'), tool('find')], tool_choice: choice },
      { format, contextLength: 1000, engine: 'embedded', parseJson: (json) => JSON.parse(json) },
    );
  const encode = async (reply: string, choice: Parameters<typeof constraintOf>[0] = 'required') => {
    const constraint = constraintOf(choice);
    const compiled = constraint && (await new GrammarCompiler(tokenizer, format).compile(constraint));
    return encodeReply({ parts: [reply], constraint }, compiled, tokenizer, format);
  };

  it('are legal and read as calls', async () => {
    const tokens = await encode(text);
    expect(tokenizer.decode(tokens)).toBe(text);
    expect(tokens.at(-1)).toBe(format.endToken);
    const parser = new ReplyParser(tokenizer, {
      endToken: format.endToken,
      format: { calls: format.calls, reasoning: format.reasoning },
      stops: { strings: [], tokens: [] },
      show: { special: false, spaces: true, stop: false, reasoning: true },
      echo: '',
    });
    for (const token of tokens) parser.push([token]);
    parser.end({ finishReason: 'stop', stop: null });
    const { content, tool_calls: calls } = parser.message();
    expect(content).toBeNull();
    expect(calls?.map(({ function: called }) => [called.name, called.arguments])).toEqual([
      ['add', family === 'lfm2' ? '{"a":1}' : '{"a": 1}'],
      ['find', '{"a":2}'],
    ]);
    expect(parser.finishReason({ finishReason: 'stop', stop: null })).toBe('tool_calls');
  });

  it('begin with the token of the tag, if it has one', async () => {
    const [first] = await encode(text);
    const tags = ['<tool_call>', '<|tool_call_start|>'];
    expect(tags.includes(tokenizer.text(first ?? 0))).toBe(['qwen3', 'lfm2'].includes(family));
  });

  it('exclude other texts, other tools and, for a named one, a second call', async () => {
    await expect(encode('Hello')).rejects.toThrow('leaves its constraint');
    await expect(encode(text.replace('add', 'sub'))).rejects.toThrow('leaves its constraint');
    const named = { type: 'function', function: { name: 'add' } } as const;
    await expect(encode(text, named)).rejects.toThrow('leaves its constraint');
  });
});

const opened = Object.fromEntries(
  ['llama3', 'qwen3', 'smollm2', 'hermes', 'lfm2'].map((family) => [family, open(family)]),
);

/** How a reply is encoded and read under `tool_choice: auto`. */
async function auto(family: string, fields: Partial<Parameters<typeof toConstraint>[0]> = {}) {
  const { tokenizer, format } = opened[family]!;
  const constraint = toConstraint(
    { tools: [tool('add'), tool('find')], ...fields },
    { format, contextLength: 1000, engine: 'embedded', parseJson: (json) => JSON.parse(json) },
  );
  const compiled = constraint && (await new GrammarCompiler(tokenizer, format).compile(constraint));
  const encode = (...parts: (string | number)[]) =>
    encodeReply({ parts, constraint }, compiled, tokenizer, format);
  const read = (reply: string) => {
    const tokens = encode(reply);
    const parser = new ReplyParser(tokenizer, {
      endToken: format.endToken,
      format: {
        calls: format.calls,
        callsFirst: hasContentGrammar(constraint),
        reasoning: format.reasoning,
      },
      stops: { strings: [], tokens: [] },
      show: { special: false, spaces: true, stop: false, reasoning: true },
      echo: '',
    });
    parser.push(tokens);
    parser.end({ finishReason: 'stop', stop: null });
    const { content, reasoning, tool_calls: calls } = parser.message();
    return {
      content,
      ...(reasoning === undefined ? {} : { reasoning }),
      calls: (calls ?? []).map(({ function: called }) => `${called.name} ${called.arguments}`),
    };
  };
  return { encode, read, tokenizer, format, constraint, compiled };
}

const left = 'leaves its constraint';

describe.each(['qwen3', 'smollm2', 'hermes'])('tool_choice auto of a %s checkpoint', (family) => {
  const space = family === 'smollm2' ? '' : '\n';
  const call = `<tool_call>${space}{"name": "add", "arguments": {"a": 1}}${space}</tool_call>`;

  it('allows text, text before calls, and calls', async () => {
    const { read } = await auto(family);
    expect(read('Hello <tool> {"name": 1}')).toEqual({ content: 'Hello <tool> {"name": 1}', calls: [] });
    expect(read(`I add: <tool_${space}${call}`)).toEqual({
      content: 'I add: <tool_',
      calls: ['add {"a": 1}'],
    });
    const both = ['add {"a": 1}', 'add {"a": 1}'];
    expect(read(call + space + call)).toEqual({ content: null, calls: both });
  });

  it('constrains a call that the model begins by itself', async () => {
    const { read } = await auto(family);
    expect(() => read(`Hm ${call.replace('add', 'sub')}`)).toThrow(left);
    expect(() => read(`Hm ${call.replace('1', '"one"')}`)).toThrow(left);
    expect(() => read(`${call} and more`)).toThrow(left);
    const single = await auto(family, { parallel_tool_calls: false });
    expect(() => single.read(call + space + call)).toThrow(left);
  });

  it('encodes text as the tokenizer does', async () => {
    const { encode, tokenizer } = await auto(family);
    const text = 'Some wörds, 1234 numbers and {"json": true}\n\n日本語 😀!';
    expect(encode(text).slice(0, -1)).toEqual(tokenizer.encodeExactly(text));
  });

  it('takes calls of training data as the model would write them', async () => {
    const { encode, tokenizer, format, constraint } = await auto(family);
    const made = { id: 'c', type: 'function', function: { name: 'add', arguments: '{"a":1}' } };
    const turn = toTurn(
      messageSchema.parse({ role: 'assistant', content: 'Adding.', tool_calls: [made] }),
      [],
    );
    const tokens = encode(...toReply(turn, constraint, format).parts);
    expect(tokenizer.decode(tokens)).toBe(`Adding.${space}${call.replace('{"a": 1}', '{"a":1}')}`);
    const tag = tokenizer.added.get('<tool_call>');
    expect(tag === undefined || tokens.includes(tag)).toBe(true);
  });

  it('has only legal calls in whatever is sampled', async () => {
    const { compiled, tokenizer, read } = await auto(family);
    const choose = randomChooser(5);
    let called = 0;
    for (let reply = 0; reply < 40; reply++) {
      const state = compiled!.start();
      const tokens: number[] = [];
      for (let step = 0; step < 60 && !state.ended; step++) {
        tokens.push(...state.takeForced());
        if (state.ended) break;
        const legal = state.legal();
        const text = tokenizer.decode(tokens);
        const begun = [10, 9, 8, 7, 6, 5, 4, 3, 2, 1].find((length) =>
          text.endsWith('<tool_call>'.slice(0, length)),
        );
        const tag = Buffer.from('<tool_call>'.slice(begun ?? 0));
        const next = state.freeText && choose(4) > 0 ? compiled!.trie.longestToken(legal, tag, 0) : -1;
        const closing = legal.ids.filter((id) => /^["}\]]/.test(tokenizer.text(id)));
        const token =
          next >= 0
            ? next
            : closing.length > 0 && !state.freeText
              ? closing[choose(closing.length)]!
              : legal.ids[choose(legal.size)]!;
        state.accept(token);
        tokens.push(token);
      }
      if (!state.ended) continue;
      for (const made of read(tokenizer.decode(tokens)).calls) {
        expect(made).toMatch(/^(add|find) \{/);
        expect(JSON.parse(made.slice(made.indexOf('{')))).toEqual({ a: expect.any(Number) });
        called++;
      }
    }
    expect(called).toBeGreaterThan(3);
  });

  it('with a response format: a text of the format, or calls', async () => {
    const format = {
      type: 'json_schema',
      json_schema: { name: 'n', schema: { type: 'object', properties: { note: { type: 'string' } } } },
    } as const;
    const { read } = await auto(family, { response_format: format });
    expect(read('{"note":"Call <tool_call>"}')).toEqual({
      content: '{"note":"Call <tool_call>"}',
      calls: [],
    });
    expect(read(call + space + call).calls).toHaveLength(2);
    expect(() => read('Hello')).toThrow(left);
    expect(() => read(`{"note":"x"}${space}${call}`)).toThrow(left);
    await expect(auto(family, { structured_outputs: { regex: '.*' } })).rejects.toThrow(
      'begin with <tool_call>',
    );
  });
});

describe('tool_choice auto of an lfm2 checkpoint', () => {
  const list = (calls: string) => `<|tool_call_start|>[${calls}]<|tool_call_end|>`;

  it('allows text, text before calls, and calls', async () => {
    const { read } = await auto('lfm2');
    expect(read('Hello [add(a=1)] <|tool')).toEqual({ content: 'Hello [add(a=1)] <|tool', calls: [] });
    expect(read(`I add. ${list('add(a=1)')}`)).toEqual({
      content: 'I add.',
      calls: ['add {"a":1}'],
    });
    expect(read(list('add(a=1), add(a=-2), find(a=3)')).calls).toEqual([
      'add {"a":1}',
      'add {"a":-2}',
      'find {"a":3}',
    ]);
  });

  it('constrains a call that the model begins by itself', async () => {
    const { read } = await auto('lfm2');
    for (const calls of [
      'sub(a=1)',
      'add(a="one")',
      'add()',
      'add(1)',
      'add(a=1, b=2)',
      'add(a=1),',
      '',
      'add',
    ])
      expect(() => read(`Hm ${list(calls)}`), calls).toThrow(left);
    expect(() => read(`${list('add(a=1)')} and more`)).toThrow(left);
    const single = await auto('lfm2', { parallel_tool_calls: false });
    expect(() => single.read(list('add(a=1), add(a=1)'))).toThrow(left);
    expect(single.read(list('add(a=1)')).calls).toEqual(['add {"a":1}']);
  });

  it('with a response format: a text of the format, or calls', async () => {
    const format = { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'array' } } } as const;
    const { read } = await auto('lfm2', { response_format: format });
    expect(read('["<|tool_call_start|>"]')).toEqual({ content: '["<|tool_call_start|>"]', calls: [] });
    expect(read(list('add(a=1), find(a=2)')).calls).toHaveLength(2);
    expect(() => read(`[]${list('add(a=1)')}`)).toThrow(left);
  });

  it('takes calls of training data as the model would write them', async () => {
    const tools: Tool[] = ['add', 'find'].map((name) => ({
      type: 'function',
      function: { name, parameters: { type: 'object', properties: { from: {}, b: {} } } },
    }));
    const { encode, tokenizer, format, constraint } = await auto('lfm2', { tools });
    const made = [
      { name: 'add', arguments: '{"b": [1, {"x": null}], "from": "it\'s \\"so\\"\\n"}' },
      { name: 'find', arguments: '{}' },
    ].map((called, index) => ({ id: `c${index}`, type: 'function', function: called }));
    const turn = toTurn(messageSchema.parse({ role: 'assistant', content: 'Adding.', tool_calls: made }), []);
    const tokens = encode(...toReply(turn, constraint, format).parts);
    expect(tokenizer.decode(tokens)).toBe(
      `Adding.${list('add(from="it\'s \\"so\\"\\n", b=[1, {"x": None}]), find()')}`,
    );
    expect(tokens.filter((token) => token === format.calls?.tokens['<|tool_call_start|>'])).toHaveLength(1);
  });
});

describe('tool_choice auto', () => {
  it('has no call in reasoning', async () => {
    const { read } = await auto('qwen3');
    const thought = '<think>\nI could <tool_call> this.\n</think>\n\n';
    expect(read(`${thought}Yes`)).toEqual({
      reasoning: 'I could <tool_call> this.',
      content: 'Yes',
      calls: [],
    });
    expect(() => read(`${thought}<tool_call>no`)).toThrow(left);
    expect(() => read('I <think> <tool_call> no')).toThrow(left);
  });

  it('constrains a reply that begins as a bare call, and no other JSON', async () => {
    const { read } = await auto('llama3');
    const call = '{"name": "add", "parameters": {"a": 1}}';
    expect(read(`${call}; ${call}`).calls).toHaveLength(2);
    for (const text of ['Hello {"name": 1}', '{"city": "Rome", "name": "x"}', '{"nam', '{}', ''])
      expect(read(text)).toEqual({ content: text, calls: [] });
    for (const text of [
      call.replace('add', 'sub'),
      '{"name": "Rome"}',
      '{ "name" : "add"}',
      ' \n{"parameters": {}}',
      '{"type": "function", "name": "add"}',
    ])
      expect(() => read(text)).toThrow(left);
    const format = { type: 'json_object' } as const;
    await expect(auto('llama3', { response_format: format })).rejects.toThrow('begin with {');
  });
});

describe('the styles of replies', () => {
  const stylesOf = (family: string) => {
    const { calls, reasoning } = open(family).format;
    const style = Object.entries(callForms).find(
      ([, { open, beforeArguments }]) => open === calls?.open && beforeArguments === calls.beforeArguments,
    );
    return [style?.[0], Object.keys(calls?.tokens ?? {}).length, reasoning?.open];
  };

  it('are found from the template and the tokens', () => {
    expect(stylesOf('llama3')).toEqual(['llama', 0, undefined]);
    expect(stylesOf('qwen2')).toEqual(['hermes', 2, undefined]);
    expect(stylesOf('qwen3')).toEqual(['hermes', 2, '<think>']);
    expect(stylesOf('hermes')).toEqual(['hermes', 0, undefined]);
    expect(stylesOf('lfm2')).toEqual(['lfm2', 2, undefined]);
    expect(stylesOf('granite')).toEqual(['hermes', 2, undefined]);
    expect(stylesOf('mistral')[0]).toBe('mistral');
  });

  it('can be set', () => {
    const { tokenizer } = open('qwen3');
    const format = readChatFormat(folderOf('qwen3'), tokenizer, { toolCalls: 'json', reasoning: 'none' });
    expect(format.calls).toEqual({ ...callForms.json, tokens: {} });
    expect(format.reasoning).toBeNull();
    const named = readChatFormat(folderOf('qwen3'), tokenizer, { toolCalls: 'named' });
    expect(named.calls).toEqual({ ...callForms.named, tokens: open('qwen3').format.calls?.tokens });
  });
});
