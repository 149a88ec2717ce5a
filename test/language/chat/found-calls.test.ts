import { describe, expect, it } from 'vitest';
import type { ChatFormat } from '../../../src/language/basics.ts';
import type { Turn } from '../../../src/language/chat/conversation.ts';
import { readChatFormat } from '../../../src/language/chat/read-chat-format.ts';
import { ConversationRenderer } from '../../../src/language/chat/render.ts';
import { readTokenizer } from '../../../src/language/tokenizer/read-tokenizer.ts';

const folder = new URL('../fixtures/qwen3', import.meta.url).pathname;
const tokenizer = readTokenizer(folder);

/** A template in ChatML that writes each call so; `f` is its function. */
const template = (call: string) =>
  `{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}` +
  `{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}` +
  `{% for call in message.tool_calls or [] %}{% set f = call.function %}${call}{% endfor %}<|im_end|>\n{% endfor %}` +
  '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}';

const formatOf = (source: string) => readChatFormat(folder, tokenizer, {}, { name: 'x.jinja', source });

const shown = (style: ChatFormat['calls']) => style && style.beforeName + style.beforeArguments;

const json = '{{ f.arguments | tojson }}';

describe('calls in the form that a template writes', () => {
  it.each([
    [
      '<tool_call>\n{"name": "", "arguments": ',
      `<tool_call>\n{"name": "{{ f.name }}", "arguments": ${json}}\n</tool_call>`,
    ],
    [
      '<tool_call>\n{"name": "", "arguments": ',
      `<tool_call>{"arguments": ${json}, "name": "{{ f.name }}"}</tool_call>`,
    ],
    [
      '<tool_call>\n{"name": "", "arguments": ',
      `<think>\n\n</think>\n\n<tool_call>{"name": "{{ f.name }}", "arguments": ${json}}</tool_call>`,
    ],
    ['<tool_call>\n', `<tool_call>{{ f.name }}\n${json}</tool_call>`],
    ['{"name": "", "parameters": ', `{"name": "{{ f.name }}", "parameters": ${json}}`],
    ['{"name": "", "arguments": ', `{"name": "{{ f.name }}", "arguments": ${json}}`],
  ])('are read: %s', (style, call) => {
    const format = formatOf(template(call));
    expect(shown(format.calls)).toBe(style);
    expect(format.unreadCall).toBeUndefined();
  });

  it.each([
    '<tool_call>{{ f.name }}\n<arg_key>text</arg_key>\n<arg_value>{{ f.arguments.text }}</arg_value></tool_call>',
    `<tool_calls>\n{"name": "{{ f.name }}", "arguments": ${json}}\n</tool_calls>`,
    `<tool_call>{"tool_name": "{{ f.name }}", "parameters": ${json}}</tool_call>`,
    `<function={{ f.name }}>${json}</function>`,
    "{{ 'function ' + f.name + '\\n```json\\n' + f.arguments + '\\n```' }}",
  ])('that no style reads are shown, and are no calls: %s', (call) => {
    const { calls, unreadCall } = formatOf(template(call));
    expect(calls).toBeNull();
    expect(unreadCall).toMatch(/probe.*called/s);
  });

  it('are those that the option names, whatever the template writes', () => {
    const source = template('<function={{ f.name }}>');
    const format = readChatFormat(folder, tokenizer, { toolCalls: 'json' }, { name: 'x.jinja', source });
    expect([shown(format.calls), format.unreadCall]).toEqual(['{"name": "", "arguments": ', undefined]);
  });
});

describe('a call in the history of a template', () => {
  const call = { id: 'c', name: 'look', arguments: '{"id":12.0}' };
  const render = async (source: string, content: string) => {
    const renderer = new ConversationRenderer(tokenizer, formatOf(source));
    const turns: Turn[] = [
      { role: 'user', content: 'hi', toolCalls: [] },
      { role: 'assistant', content, toolCalls: [call] },
    ];
    const { tokens } = await renderer.render({ turns, tools: undefined }, { addGenerationPrompt: false });
    return tokens.map((token) => tokenizer.text(token)).join('');
  };

  // As DeepSeek's: calls only of messages without content, and arguments that are appended to a text.
  const without = template("{% if message.content is none %}{{ f.name + ': ' + f.arguments }}{% endif %}");

  it('is written where the template takes no content and JSON', async () => {
    expect(await render(without, '')).toContain('<|im_start|>assistant\nlook: {"id":12.0}<|im_end|>');
  });

  it('is written without an empty message beside it, where the template would write one', async () => {
    const source = template(
      `{{ f.name }} ${json}<|im_end|>\n{% if message.content is not none %}<|im_start|>assistant\n{% endif %}`,
    );
    expect(await render(source, '')).toMatch(/assistant\nlook \{"id": 12.0\}<\|im_end\|>\n<\|im_end\|>\n$/);
  });

  it('is refused beside a text that the template would show without it', async () => {
    await expect(render(without, 'I look.')).rejects.toThrow(
      'template leaves out tool calls, so the model would',
    );
  });

  it('has values for arguments where the template takes them', async () => {
    const source = template(`<tool_call>{"name": "{{ f.name }}", "arguments": ${json}}</tool_call>`);
    expect(await render(source, 'I look.')).toContain(
      'I look.<tool_call>{"name": "look", "arguments": {"id": 12.0}}',
    );
  });
});
