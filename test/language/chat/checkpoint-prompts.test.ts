import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { messageSchema } from '../../../src/contract/chat/messages.ts';
import type { Message, Tool } from '../../../src/contract/index.ts';
import { type Turn, toTurn } from '../../../src/language/chat/conversation.ts';
import { readChatFormat } from '../../../src/language/chat/read-chat-format.ts';
import { ConversationRenderer, type RenderOptions } from '../../../src/language/chat/render.ts';
import { LanguageError } from '../../../src/language/error.ts';
import { readTokenizer } from '../../../src/language/tokenizer/read-tokenizer.ts';

const fixtures = new URL('../fixtures/', import.meta.url);
const families = [
  ...['llama3', 'qwen2', 'qwen3', 'smollm2', 'hermes', 'gemma3', 'lfm2', 'granite', 'mistral'],
];
const SEED = 20261122;

interface Case {
  messages: Message[];
  tools: Tool[] | null;
  add_generation_prompt: boolean;
  variables: Record<string, unknown>;
  tokens: number[];
}

/** The turn of a message whose arguments of calls are JSON or, as transformers takes them, values. */
function toTurnOf(message: Message, index: number) {
  const json = JSON.stringify(message, (name, value) =>
    name === 'arguments' && typeof value === 'object' ? JSON.stringify(value) : value,
  );
  return toTurn(messageSchema.parse(JSON.parse(json)), ['messages', index]);
}

function open(family: string) {
  const folder = new URL(family, fixtures).pathname;
  const tokenizer = readTokenizer(folder);
  const format = readChatFormat(folder, tokenizer);
  const renderer = new ConversationRenderer(tokenizer, format);
  const textOf = (tokens: readonly number[]) => tokens.map((token) => tokenizer.text(token)).join('');
  const render = (
    messages: Message[],
    { follows = true, ...more }: { follows?: boolean } & Partial<RenderOptions> = {},
  ) =>
    renderer.render(
      {
        turns: messages.map(toTurnOf),
        tools: undefined,
      },
      { addGenerationPrompt: follows, ...more },
    );
  return { tokenizer, format, renderer, textOf, render };
}

describe('a call in the history of a checkpoint', () => {
  it('has every digit, and the order of its members', async () => {
    const { renderer, textOf } = open('qwen3');
    const text =
      '{"id": 2512292042121000001, "10": 1.0, "2": [1e-7, 1E16, 1e400, 0.1234567890123456789], "a": 1, "a": 2}';
    const call = { id: 'c', name: 'look', arguments: text };
    const turns: Turn[] = [
      { role: 'user', content: 'hi', toolCalls: [] },
      { role: 'assistant', content: '', toolCalls: [call] },
    ];
    const { tokens } = await renderer.render({ turns, tools: undefined }, { addGenerationPrompt: false });
    // As Python's json.dumps(json.loads(text)) writes it.
    expect(textOf(tokens)).toContain(
      '{"id": 2512292042121000001, "10": 1.0, "2": [1e-07, 1e+16, Infinity, 0.12345678901234568], "a": 2}',
    );
  });
});

describe('a call in the history of a template that leaves out calls', () => {
  const folder = new URL('lfm2', fixtures).pathname;
  const tokenizer = readTokenizer(folder);
  // As LFM2's first one.
  const source =
    "{{ bos_token }}{% if tools %}{{ '<|im_start|>system\\n' + (tools | tojson) + '<|im_end|>\\n' }}{% endif %}" +
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}" +
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
  const format = readChatFormat(folder, tokenizer, {}, { name: 'first', source });
  const renderer = new ConversationRenderer(tokenizer, format);
  const textOf = (tokens: readonly number[]) => tokens.map((token) => tokenizer.text(token)).join('');
  const plain = { role: 'assistant', content: '', toolCalls: [] };
  const made = [
    { id: 'a', name: 'add', arguments: '{"a":1,"b":["<|tool_call_end|>"]}' },
    { id: 'b', name: 'odd', arguments: 'a: 1' },
  ];
  const user = (content: string) => ({ ...plain, role: 'user', content });
  const rendered = (turns: Turn[], options: Partial<RenderOptions> = {}) =>
    renderer.render({ turns, tools: undefined }, { addGenerationPrompt: true, ...options });

  it('is as the model would have written it, with its tags as tokens', async () => {
    const turns = [
      user('x'),
      { ...plain, content: 'Hm', toolCalls: made },
      { ...plain, role: 'tool', content: '3' },
    ];
    const { tokens, splices } = await rendered(turns);
    expect(textOf(tokens)).toBe(
      '<|startoftext|><|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\nHm<|tool_call_start|>[add(a=1, b=["<|tool_call_end|>"]), odd(a: 1)]<|tool_call_end|><|im_end|>\n<|im_start|>tool\n3<|im_end|>\n<|im_start|>assistant\n',
    );
    const counted = (tag: string) => tokens.filter((token) => token === tokenizer.added.get(tag)).length;
    expect([counted('<|tool_call_start|>'), counted('<|tool_call_end|>')]).toEqual([1, 1]);
    expect(splices).toEqual([]);
  });

  it('does not hide sampled ids beside it', async () => {
    const reply = [...tokenizer.encode('Yes'), format.endToken];
    const turns = [
      user('x'),
      { ...plain, toolCalls: made },
      user('y'),
      { ...plain, tokenIds: reply },
      user('z'),
    ];
    const { tokens, splices } = await rendered(turns);
    const [splice] = splices;
    expect(splices).toHaveLength(1);
    expect(tokens.slice(splice?.start, (splice?.start ?? 0) + reply.length)).toEqual(reply);
  });

  it('has the tokens that are sampled under the constraint of its tools', async () => {
    const call = { id: 'a', name: 'add', arguments: '{"a":1}' };
    const written = await rendered([user('x'), { ...plain, toolCalls: [call] }]);
    const [open = 0, close = 0] = Object.values(format.calls?.tokens ?? {});
    const sampled = [open, ...tokenizer.encode('[add(a=1)]'), close, format.endToken];
    const kept = await rendered([user('x'), { ...plain, tokenIds: sampled }]);
    expect(kept.tokens).toEqual(written.tokens);
  });
});

describe('what a template would leave out, though the model needs it', () => {
  const folder = new URL('gemma3', fixtures).pathname;
  const tokenizer = readTokenizer(folder);
  const plain = { role: 'assistant', content: '', toolCalls: [] };
  const user = { ...plain, role: 'user', content: 'x' };
  const called = { ...plain, toolCalls: [{ id: 'a', name: 'add', arguments: '{"a":1}' }] };
  const tools: Tool[] = [{ type: 'function', function: { name: 'add', parameters: { type: 'object' } } }];
  const opened = (source?: string) => {
    const format = readChatFormat(
      folder,
      tokenizer,
      {},
      source === undefined ? undefined : { name: 'own', source },
    );
    const renderer = new ConversationRenderer(tokenizer, format);
    return async (turns: Turn[], tools?: Tool[]) => {
      const { tokens } = await renderer.render({ turns, tools }, { addGenerationPrompt: true });
      return tokens.map((token) => tokenizer.text(token)).join('');
    };
  };
  const framed = (condition: string, before = '') =>
    `${before}{% for message in messages %}{% if ${condition} %}{{ '<start_of_turn>' + message.role.replace('assistant', 'model') + '\\n' + message.content + '<end_of_turn>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}`;

  it('is refused by its message: calls, of which nobody knows how the model writes them', async () => {
    const render = opened();
    await expect(render([user, called, user])).rejects.toMatchObject({
      code: 'not_in_chat_template',
      message: expect.stringMatching(/leaves out tool calls.* of message 1\b.*--chat-template hermes/),
    });
    expect(await render([user, { ...plain, content: 'y' }, user])).toContain(
      '<start_of_turn>model\ny<end_of_turn>',
    );
  });

  it('is refused by its message: the result of a tool, and every role that the template does not write', async () => {
    const render = opened(framed("message.role in ['user', 'assistant']"));
    for (const role of ['tool', 'system', 'critic']) {
      const message = { ...plain, role, content: 'z' };
      await expect(render(role === 'system' ? [message, user] : [user, message])).rejects.toMatchObject({
        code: 'not_in_chat_template',
        message: expect.stringContaining(`leaves out messages of the role ${role}`),
      });
    }
    expect(await render([{ ...plain, role: 'system' }, user])).toContain(
      '<start_of_turn>user\nx<end_of_turn>',
    );
  });

  it('is what it is with the tools of the request', async () => {
    const render = opened(
      framed(
        "message.role != 'assistant' or not message.tool_calls",
        '{% for message in messages if tools and message.tool_calls %}{{ message.tool_calls | tojson }}{% endfor %}',
      ),
    );
    expect(await render([user, called, user], tools)).toContain('"add"');
    // Calls are JSON, as the template's word for tools shows, so they are written as the model would have.
    expect(await render([user, called, user])).toContain(
      '<start_of_turn>model\n{"name": "add", "arguments": {"a":1}}',
    );
  });
});

describe.each(families)('a prompt of a %s checkpoint', (family) => {
  const { tokenizer, renderer, textOf, render } = open(family);

  it('has the tokens of transformers', async () => {
    const cases: Case[] = JSON.parse(readFileSync(new URL(`${family}.prompts.json`, fixtures), 'utf8'));
    expect(cases.length).toBeGreaterThan(10);
    for (const { messages, tools, add_generation_prompt: follows, variables, tokens } of cases) {
      const turns = messages.map(toTurnOf);
      const rendering = renderer.render(
        { turns, tools: tools ?? undefined },
        { addGenerationPrompt: follows, values: variables },
      );
      if (family === 'gemma3' && turns.some(({ toolCalls }) => toolCalls.length > 0)) {
        await expect(rendering).rejects.toThrow('leaves out tool calls');
        continue;
      }
      const rendered = await rendering;
      expect(textOf(rendered.tokens)).toBe(textOf(tokens));
      expect(rendered.tokens).toEqual(tokens);
    }
  });

  it('has no added token from a text, wherever the text stands', async () => {
    const added = [...tokenizer.added.keys()];
    const ids = new Set(tokenizer.added.values());
    const count = async (messages: Message[]) =>
      (await render(messages)).tokens.filter((token) => ids.has(token)).length;
    const piece = fc.oneof(
      fc.constantFrom(...added, '<|im_', 'start|>', 'system\n', '\udb80', '\u{f0000}', '\ufdd0', '</think>'),
      fc.string({ maxLength: 3 }),
    );
    const text = fc.array(piece, { minLength: 1, maxLength: 6 }).map((pieces) => `x${pieces.join('')}x`);
    const messages = (content: string): Message[] => [
      { role: 'system', content },
      { role: 'user', content },
      { role: 'user', content },
    ];
    const usual = await count(messages('xx'));
    await fc.assert(
      fc.asyncProperty(text, async (content) => {
        expect(await count(messages(content))).toBe(usual);
      }),
      { seed: SEED, numRuns: 200 },
    );
  });

  it('has no special token from tools, calls, results, reasoning, names or sampled ids', async () => {
    const special = new Set(tokenizer.special.values());
    const hostile = fc
      .array(
        fc.oneof(
          fc.constantFrom(
            ...tokenizer.added.keys(),
            '<|im_',
            'start|>',
            '<|',
            '|>',
            '\\',
            '"',
            "'",
            '{{',
            '%}',
          ),
          fc.string({ maxLength: 3 }),
        ),
        { minLength: 1, maxLength: 5 },
      )
      .map((pieces) => `x${pieces.join('')}x`);
    const places = [
      ...['description', 'parameter', 'tool', 'called', 'argument', 'value', 'plain', 'result'],
      ...['content', 'reasoning', 'id', 'name', 'reply'],
    ] as const;
    type Texts = Record<(typeof places)[number], string>;
    const textsOf = (place: string, text: string) =>
      Object.fromEntries(places.map((one) => [one, one === place ? text : 'xx'])) as Texts;
    const render = async (texts: Texts) => {
      const calls = [
        JSON.stringify({ [texts.argument]: texts.value }),
        // Arguments that are no JSON, as a model may write them.
        texts.plain,
      ].map((json, index) => ({
        id: `${texts.id}${index}`,
        name: texts.called,
        arguments: json,
      }));
      const plain = { content: '', toolCalls: [] };
      const turns: Turn[] = [
        { ...plain, role: 'user', content: 'ask' },
        { ...plain, role: 'assistant', tokenIds: tokenizer.encodeExactly(texts.reply) },
        { ...plain, role: 'user', content: 'ask', name: texts.name },
        {
          ...{ role: 'assistant', content: texts.content, reasoning: texts.reasoning },
          // Llama's template writes one call in a message, Gemma's none.
          toolCalls:
            family === 'llama3'
              ? [texts.plain === 'xx' ? calls[0]! : calls[1]!]
              : family === 'gemma3'
                ? []
                : calls,
        },
        { ...plain, role: 'tool', content: texts.result, toolCallId: `${texts.id}0` },
      ];
      const parameters = {
        type: 'object',
        properties: { [texts.parameter]: { type: 'string', description: texts.description } },
      };
      const tool = { name: texts.tool, description: texts.description, parameters };
      const { tokens } = await renderer.render(
        { turns, tools: [{ type: 'function', function: tool }] },
        { addGenerationPrompt: true },
      );
      return tokens.filter((token) => special.has(token));
    };
    let rendered = 0;
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...places), hostile, async (place, text) => {
        const usual = await render(textsOf(place, 'xyx'));
        let found: number[];
        try {
          found = await render(textsOf(place, text));
        } catch (error) {
          // Where the template itself looks for its tokens, the conversation is refused.
          expect(error).toBeInstanceOf(LanguageError);
          return;
        }
        rendered++;
        expect(found).toEqual(usual);
      }),
      { seed: SEED, numRuns: 300 },
    );
    expect(rendered).toBeGreaterThan(200);
  });

  it('keeps sampled ids', async () => {
    const { endToken } = open(family).format;
    // Not as the tokenizer would encode it.
    const reply = [...Buffer.from('Hello there')].map(
      (byte) => tokenizer.encode(String.fromCharCode(byte))[0] ?? 0,
    );
    const first: Message[] = [{ role: 'user', content: 'Hi' }];
    const asked = (await render(first)).tokens;
    const messages: Message[] = [
      ...first,
      { role: 'assistant', content: 'Hello there', token_ids: [...reply, endToken] },
      { role: 'user', content: 'Hello there' },
    ];
    const { tokens, splices } = await render(messages);
    expect(tokens.slice(0, asked.length + reply.length + 1)).toEqual([...asked, ...reply, endToken]);
    expect(splices).toEqual([{ start: asked.length, length: reply.length + 1 }]);
  });

  it('ends with the content of a message that is continued', async () => {
    const messages: Message[] = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'I say' },
    ];
    const { tokens } = await render(messages, { follows: false, continueFinalMessage: true });
    expect(textOf(tokens)).toMatch(/(assistant|model|INST\])[\s\S]*I say$/);
  });
});

describe('a prompt that was rendered before', () => {
  it('is the same again, and another one with other tools, another ending or effort', async () => {
    const folder = new URL('qwen3', fixtures).pathname;
    const tokenizer = readTokenizer(folder);
    const renderer = new ConversationRenderer(tokenizer, readChatFormat(folder, tokenizer));
    const turns = [{ role: 'user', content: 'hi', toolCalls: [] }];
    const tools: Tool[] = [{ type: 'function', function: { name: 'look' } }];
    const asked = { addGenerationPrompt: true };
    const others = [
      [undefined, asked],
      [tools, asked],
      [undefined, { addGenerationPrompt: false }],
      [undefined, { addGenerationPrompt: false, continueFinalMessage: true }],
      [undefined, { ...asked, reasoningEffort: 'none' }],
    ] as const;
    const renderAll = () =>
      Promise.all(others.map(([given, options]) => renderer.render({ turns, tools: given }, options)));
    const first = await renderAll();
    expect(await renderAll()).toEqual(first);
    expect(new Set(first.map(({ tokens }) => tokens.join())).size).toBe(others.length);
  });
});

describe('a template that rewrites history', () => {
  const { tokenizer, format, textOf, render } = open('qwen3');
  const thought = tokenizer.added.get('<think>') ?? 0;
  const answer = tokenizer.added.get('</think>') ?? 0;
  const reply = [
    thought,
    ...tokenizer.encode('\nHm\n'),
    answer,
    ...tokenizer.encode('\n\nYes'),
    format.endToken,
  ];
  const asked: Message[] = [
    { role: 'user', content: 'Really' },
    { role: 'assistant', content: 'Yes', token_ids: reply },
  ];

  it('has earlier reasoning left out after the next question', async () => {
    const { tokens, splices } = await render([...asked, { role: 'user', content: 'Why' }]);
    expect(splices).toEqual([null]);
    expect(textOf(tokens)).toBe(
      '<|im_start|>user\nReally<|im_end|>\n<|im_start|>assistant\nYes<|im_end|>\n<|im_start|>user\nWhy<|im_end|>\n<|im_start|>assistant\n',
    );
  });

  it('keeps it, as sampled, while the question is the same', async () => {
    const prompt = (await render(asked.slice(0, 1))).tokens;
    const { tokens, splices } = await render([...asked, { role: 'tool', tool_call_id: 'a', content: '4' }]);
    expect(splices).toEqual([{ start: prompt.length, length: reply.length }]);
    expect(tokens.slice(0, prompt.length + reply.length)).toEqual([...prompt, ...reply]);
  });

  it('keeps a reply without reasoning after the empty reasoning of its prompt', async () => {
    const short = [...tokenizer.encode('Yes'), format.endToken];
    const values = { enable_thinking: false };
    const prompt = (await render(asked.slice(0, 1), { values })).tokens;
    const { tokens } = await render([asked[0]!, { role: 'assistant', content: 'Yes', token_ids: short }], {
      follows: false,
      values,
    });
    expect(tokens.slice(0, prompt.length + short.length)).toEqual([...prompt, ...short]);
  });
});

describe('a chat format', () => {
  it('has the end tokens of the generation config, first the one that the template writes', async () => {
    const ends = (family: string) => {
      const { format, tokenizer } = open(family);
      return [format.endToken, ...format.otherEndTokens].map((token) => tokenizer.text(token));
    };
    expect(ends('llama3')).toEqual(['<|eot_id|>', '<|end_of_text|>', '<|eom_id|>']);
    expect(ends('qwen3')).toEqual(['<|im_end|>', '<|endoftext|>']);
    expect(ends('smollm2')).toEqual(['<|im_end|>']);
    expect(ends('gemma3')).toEqual(['<end_of_turn>', '<eos>']);
  });

  it('has the begin token that the tokenizer itself writes', async () => {
    const begins = families.map((family) => open(family).format.beginToken !== null);
    expect(begins).toEqual([true, false, false, false, true, true, true, false, true]);
  });
});

describe('a template whose replies follow the end of a question, as of Mistral', () => {
  const { tokenizer, textOf, renderer } = open('mistral');
  const turn = (role: Turn['role'], content: string, more: Partial<Turn> = {}): Turn => ({
    ...{ role, content, toolCalls: [] },
    ...more,
  });
  const sampled = (text: string) => tokenizer.encodeExactly(text);

  it('keeps the tokens of sampled replies, also of those to results', async () => {
    // Other tokens than the text has.
    const [first, second] = ['Yes', 'Right'].map((text) => [...text].flatMap(sampled));
    const turns = [
      turn('user', 'A'),
      turn('assistant', '', { tokenIds: first! }),
      turn('user', 'B'),
      turn('assistant', '', { toolCalls: [{ id: 'c', name: 'add', arguments: '{}' }] }),
      turn('tool', '3', { toolCallId: 'c' }),
      turn('assistant', '', { tokenIds: second! }),
    ];
    const { tokens, splices } = await renderer.render(
      { turns, tools: undefined },
      { addGenerationPrompt: false },
    );
    expect(splices.map((splice) => splice !== null)).toEqual([true, true]);
    expect(textOf(tokens)).toBe(
      '<s>[INST]A[/INST]Yes</s>[INST]B[/INST][TOOL_CALLS][{"name": "add", "arguments": {}}]</s>' +
        '[TOOL_RESULTS]{"content": "3"}[/TOOL_RESULTS]Right</s>',
    );
    for (const reply of [first, second]) expect(tokens.join()).toContain(reply!.join());
  });

  it('continues an empty reply to results', async () => {
    const turns = [
      ...[turn('user', 'A'), turn('assistant', '', { tokenIds: sampled('Yes') })],
      ...[turn('tool', '3'), turn('assistant', '')],
    ];
    const { tokens } = await renderer.render(
      { turns, tools: undefined },
      { addGenerationPrompt: false, continueFinalMessage: true },
    );
    expect(textOf(tokens)).toBe('<s>[INST]A[/INST]Yes</s>[TOOL_RESULTS]{"content": "3"}[/TOOL_RESULTS]');
  });
});
