import { describe, expect, it } from 'vitest';
import { ollamaTemplate } from '../../../src/cli/export/ollama-template.ts';
import { callForms } from '../../../src/language/call-forms.ts';
import { CodedTemplate } from '../../../src/language/chat/coded-template.ts';
import type { Turn } from '../../../src/language/chat/conversation.ts';
import { readChatFormat } from '../../../src/language/chat/read-chat-format.ts';
import { ConversationRenderer } from '../../../src/language/chat/render.ts';
import { readTokenizer } from '../../../src/language/tokenizer/read-tokenizer.ts';

const folderOf = (family: string) => new URL(`../fixtures/${family}`, import.meta.url).pathname;

function open(family: string, given: Parameters<typeof readChatFormat>[3]) {
  const tokenizer = readTokenizer(folderOf(family));
  return { tokenizer, format: readChatFormat(folderOf(family), tokenizer, {}, given) };
}

const tool = {
  type: 'function',
  function: { name: 'add', description: 'Adds.', parameters: { type: 'object' } },
};
const call = { id: 'c', type: 'function', function: { name: 'add', arguments: { a: 1 } } };
const conversation = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'One and two?' },
  { role: 'assistant', content: 'Let me see.', tool_calls: [call, call] },
  { role: 'tool', content: '3' },
  { role: 'tool', content: '4' },
  { role: 'assistant', content: 'Three.' },
  { role: 'user', content: 'Thanks' },
];

function write(
  { tokenizer, format }: ReturnType<typeof open>,
  messages: object[],
  tools: object[] | null,
): string {
  const template = new CodedTemplate(format.template, tokenizer.added, Object.values(format.variables));
  const values = { messages, tools, documents: null, add_generation_prompt: true };
  return template
    .render(format.variables, values)
    .map((part) => (part.type === 'text' ? part.text : tokenizer.text(part.token)))
    .join('');
}

describe('the template hermes', () => {
  it('shows tools, calls and their results to a model with the tokens of ChatML', () => {
    const language = open('smollm2', { name: 'hermes', source: null });
    expect(language.format).toMatchObject({
      templateFrom: 'hermes',
      toolTemplate: null,
      calls: { ...callForms.hermes, tokens: {} },
      reasoning: null,
    });
    expect(write(language, conversation, [tool])).toBe(
      `<|im_start|>system
Be brief.

You can call tools. Their signatures, one a line:
<tools>
{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}
</tools>
To call a tool, write its name and its arguments:
<tool_call>
{"name": "...", "arguments": {...}}
</tool_call><|im_end|>
<|im_start|>user
One and two?<|im_end|>
<|im_start|>assistant
Let me see.
<tool_call>
{"name": "add", "arguments": {"a": 1}}
</tool_call>
<tool_call>
{"name": "add", "arguments": {"a": 1}}
</tool_call><|im_end|>
<|im_start|>user
<tool_response>
3
</tool_response>
<tool_response>
4
</tool_response><|im_end|>
<|im_start|>assistant
Three.<|im_end|>
<|im_start|>user
Thanks<|im_end|>
<|im_start|>assistant
`,
    );
    expect(write(language, [{ role: 'user', content: 'Hi' }], null)).toBe(
      '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n',
    );
    expect(write(language, [{ role: 'user', content: 'Hi' }], [tool])).toMatch(
      /^<\|im_start\|>system\nYou can call/,
    );
  });

  it('writes the frames of Llama 3 for a model with its tokens', () => {
    const language = open('llama3', { name: 'hermes', source: null });
    expect(write(language, conversation.slice(0, 2), null)).toBe(
      '<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>' +
        '<|start_header_id|>user<|end_header_id|>\n\nOne and two?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n',
    );
    expect(language.tokenizer.text(language.format.endToken)).toBe('<|eot_id|>');
  });

  it('writes the frames of Gemma, which has no system messages, for a model with its tokens', () => {
    const language = open('gemma3', { name: 'hermes', source: null });
    const called =
      '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>';
    expect(write(language, conversation, [tool])).toMatch(
      /^<bos><start_of_turn>user\nBe brief\.\n\nYou can call tools[\s\S]*<\/tool_call>\n\nOne and two\?<end_of_turn>\n/,
    );
    expect(write(language, conversation, null)).toBe(
      `<bos><start_of_turn>user\nBe brief.\n\nOne and two?<end_of_turn>\n<start_of_turn>model\nLet me see.\n${called}<end_of_turn>\n` +
        '<start_of_turn>user\n<tool_response>\n3\n</tool_response>\n<tool_response>\n4\n</tool_response><end_of_turn>\n' +
        '<start_of_turn>model\nThree.<end_of_turn>\n<start_of_turn>user\nThanks<end_of_turn>\n<start_of_turn>model\n',
    );
    // Where the user does not begin, it is a message of its own.
    const [system = {}, , , , , reply = {}] = conversation;
    const own = '<bos><start_of_turn>user\nBe brief.<end_of_turn>\n<start_of_turn>model\n';
    expect(write(language, [system], null)).toBe(own);
    expect(write(language, [system, reply], null)).toBe(`${own}Three.<end_of_turn>\n<start_of_turn>model\n`);
    expect(language.format.calls).toEqual({ ...callForms.hermes, tokens: {} });
    expect(language.tokenizer.text(language.format.endToken)).toBe('<end_of_turn>');
  });
});

describe('a template that writes the generation prompt after every conversation', () => {
  // In the style of the first template of Llama 3.
  const source =
    "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}" +
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}";

  it('keeps the sampled tokens of earlier replies, also where nothing is asked for', async () => {
    const { tokenizer, format } = open('llama3', { name: './first.jinja', source });
    expect(tokenizer.text(format.endToken)).toBe('<|eot_id|>');
    const renderer = new ConversationRenderer(tokenizer, format);
    // Not as the tokenizer would write them.
    const tokenIds = [...'Hello'].flatMap((letter) => tokenizer.encode(letter)).concat(format.endToken);
    const turns: Turn[] = [
      { role: 'user', content: 'Hi', toolCalls: [] },
      { role: 'assistant', content: 'Hello', toolCalls: [], tokenIds },
      { role: 'user', content: 'Again', toolCalls: [] },
    ];
    const whole = await renderer.render({ turns, tools: undefined }, { addGenerationPrompt: true });
    expect(whole.splices).toEqual([{ start: expect.any(Number), length: tokenIds.length }]);
    const start = whole.splices[0]?.start ?? Number.NaN;
    expect(whole.tokens.slice(start, start + tokenIds.length)).toEqual(tokenIds);
    const trained = await renderer.render(
      { turns: turns.slice(0, 2), tools: undefined },
      { addGenerationPrompt: false },
    );
    expect(trained.splices).toEqual(whole.splices);
    expect(trained.tokens.slice(0, start)).toEqual(whole.tokens.slice(0, start));
  });
});

const framed =
  "{% for m in messages %}{% if loop.first and m.role != 'system' %}<|im_start|>system\nYou help.<|im_end|>\n{% endif %}" +
  '<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}';

describe("a template in Ollama's form", () => {
  it('frames messages as the own template does, and writes its system message where there is none', () => {
    expect(ollamaTemplate(open('smollm2', { name: 'x', source: framed }))).toBe(
      '{{ if not .System }}<|im_start|>system\nYou help.<|im_end|>\n{{ end }}{{ range .Messages }}' +
        '{{ if eq .Role "system" }}<|im_start|>system\n{{ .Content }}<|im_end|>\n' +
        '{{ else if eq .Role "user" }}<|im_start|>user\n{{ .Content }}<|im_end|>\n' +
        '{{ else if eq .Role "assistant" }}<|im_start|>assistant\n{{ .Content }}<|im_end|>\n{{ end }}{{ end }}<|im_start|>assistant\n',
    );
  });

  it.each([
    ['shows tools', `${framed}{% if tools %}<tool_call>{% endif %}`],
    ['numbers its messages', framed.replace('{{ m.content }}', '{{ loop.index }} {{ m.content }}')],
    [
      'ends only replies',
      framed.replace('<|im_end|>\n{% endfor', "{% if m.role == 'assistant' %}<|im_end|>{% endif %}{% endfor"),
    ],
  ])('is not there for a template that %s', (_, source) => {
    expect(ollamaTemplate(open('smollm2', { name: 'x', source }))).toBeNull();
  });
});

it('a file that is no template is refused by its name', () => {
  const language = () => open('smollm2', { name: './mine.jinja', source: '{% for %}' });
  expect(language).toThrow(/\.\/mine\.jinja: the chat template cannot be used/);
});
