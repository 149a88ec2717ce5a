import { describe, expect, it } from 'vitest';
import type { Tool } from '../../../src/contract/index.ts';
import { readChatFormat } from '../../../src/language/chat/read-chat-format.ts';
import { ReplyParser } from '../../../src/language/chat/reply-parser.ts';
import { toConstraint } from '../../../src/language/constraint/request-constraint.ts';
import { GrammarCompiler } from '../../../src/language/grammar/compiler.ts';
import { encodeReply } from '../../../src/language/grammar/encode-reply.ts';
import { readTokenizer } from '../../../src/language/tokenizer/read-tokenizer.ts';

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
  smollm2:
    '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>\n<tool_call>\n{"name": "find", "arguments": {"a":2}}\n</tool_call>',
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
      callToken: null,
      reasoning: null,
      text: { calls: format.textCalls, reasoning: format.textReasoning },
      stops: { strings: [], tokens: [] },
      show: { special: false, spaces: true, stop: false, reasoning: true },
      echo: '',
    });
    for (const token of tokens) parser.push([token]);
    parser.end({ finishReason: 'stop', stop: null });
    const { content, tool_calls: calls } = parser.message();
    expect(content).toBeNull();
    expect(calls?.map(({ function: called }) => [called.name, called.arguments])).toEqual([
      ['add', '{"a": 1}'],
      ['find', '{"a":2}'],
    ]);
    expect(parser.finishReason({ finishReason: 'stop', stop: null })).toBe('tool_calls');
  });

  it('begin with the token of the tag, if it has one', async () => {
    const [first] = await encode(text);
    expect(tokenizer.text(first ?? 0).startsWith('<tool_call>')).toBe(family === 'qwen3');
  });

  it('exclude other texts, other tools and, for a named one, a second call', async () => {
    await expect(encode('Hello')).rejects.toThrow('leaves its constraint');
    await expect(encode(text.replace('add', 'sub'))).rejects.toThrow('leaves its constraint');
    const named = { type: 'function', function: { name: 'add' } } as const;
    await expect(encode(text, named)).rejects.toThrow('leaves its constraint');
  });
});

describe('the styles of replies', () => {
  const stylesOf = (family: string) => {
    const { textCalls, textReasoning } = open(family).format;
    return [textCalls?.open, textCalls?.argumentsField, textCalls?.tokens !== null, textReasoning?.open];
  };

  it('are found from the template and the tokens', () => {
    expect(stylesOf('llama3')).toEqual(['', 'parameters', false, undefined]);
    expect(stylesOf('qwen2')).toEqual(['<tool_call>', 'arguments', true, undefined]);
    expect(stylesOf('qwen3')).toEqual(['<tool_call>', 'arguments', true, '<think>']);
    expect(stylesOf('hermes')).toEqual(['<tool_call>', 'arguments', false, undefined]);
  });

  it('can be set', () => {
    const { tokenizer } = open('qwen3');
    const format = readChatFormat(folderOf('qwen3'), tokenizer, { calls: 'arguments', reasoning: 'none' });
    expect(format.textCalls).toMatchObject({ open: '', argumentsField: 'arguments' });
    expect(format.textReasoning).toBeNull();
  });
});
