import { Template } from '@huggingface/jinja';
import { describe, expect, it } from 'vitest';
import { chatFormat, loadTokenizer } from '../../../../src/engines/embedded/tokenizer/index.ts';

const tokenizer = loadTokenizer();
const format = chatFormat(tokenizer);
const template = new Template(format.template);
const render = (input: Record<string, unknown>) => template.render({ messages: [], ...input });
const message = (role: string, content: unknown, rest: object = {}) =>
  render({ messages: [{ role, content, ...rest }] });

describe('the chat template', () => {
  it('writes each role as a section between special tokens', () => {
    expect(message('system', 'Be kind.')).toBe('<|system|>Be kind.<|end|>');
    expect(message('developer', 'Be kind.')).toBe('<|system|>Be kind.<|end|>');
    expect(message('user', 'hi')).toBe('<|user|>hi<|end|>');
    expect(message('assistant', 'hello')).toBe('<|assistant|>hello<|end|>');
    expect(message('tool', 'ok', { tool_call_id: 'a' })).toBe('<|tool|>ok<|end|>');
    expect(message('function', 'ok', { name: 'a' })).toBe('<|tool|>ok<|end|>');
  });

  it('writes tool calls after the content, arguments as they were', () => {
    const call = (name: string, text: string) => ({
      id: 'x',
      type: 'function',
      function: { name, arguments: text },
    });
    expect(message('assistant', null, { tool_calls: [call('refund', '{"order":"4821"}')] })).toBe(
      '<|assistant|><|call|>refund{"order":"4821"}<|end|>',
    );
    expect(message('assistant', 'ok ', { tool_calls: [call('a', '{}'), call('b', 'not json ')] })).toBe(
      '<|assistant|>ok <|call|>a{}<|call|>bnot json <|end|>',
    );
  });

  it('changes nothing of a content', () => {
    const content = '  \n {{ x }} {% if %} <b> \ue000 &amp; "\u{1f600}\n\n';
    for (const role of ['system', 'user', 'assistant', 'tool'])
      expect(message(role, content)).toBe(`<|${role}|>${content}<|end|>`);
  });

  it('lists tools once, with their parameters and which may be absent', () => {
    const tool = (name: string, parameters?: object) => ({
      type: 'function',
      function: { name, parameters },
    });
    const properties = { order: { type: 'string' }, note: { type: 'string' } };
    const tools = [tool('refund', { type: 'object', properties, required: ['order'] }), tool('list')];
    expect(render({ tools })).toBe('<|tools|>refund(order,note?) list()<|end|>');
    expect(render({ tools: [] })).toBe('');
  });

  it('lists documents as system sections', () => {
    const documents = [{ title: 'Hours', text: 'Nine to five.' }, { text: 'Closed on Sunday.' }];
    expect(render({ documents })).toBe(
      '<|system|>Hours: Nine to five.<|end|><|system|>Closed on Sunday.<|end|>',
    );
  });

  it('ends with the beginning of a reply when one is asked for', () => {
    expect(render({ add_generation_prompt: true })).toBe('<|assistant|>');
    expect(render({ add_generation_prompt: false })).toBe('');
  });

  it('refuses a role it does not know', () => {
    expect(() => message('wizard', 'hi')).toThrow('wizard');
  });
});

describe('the chat format', () => {
  it('names the tokens that end a reply and begin a call', () => {
    expect(tokenizer.text(format.endToken)).toBe('<|end|>');
    expect(tokenizer.text(format.callToken)).toBe('<|call|>');
  });
});
