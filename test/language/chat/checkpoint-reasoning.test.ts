import { describe, expect, it } from 'vitest';
import { messageSchema } from '../../../src/contract/chat/messages.ts';
import { toTurn } from '../../../src/language/chat/conversation.ts';
import { endsInReasoning } from '../../../src/language/chat/prompt-reasoning.ts';
import { readChatFormat } from '../../../src/language/chat/read-chat-format.ts';
import { ConversationRenderer, type RenderOptions } from '../../../src/language/chat/render.ts';
import { ReplyParser } from '../../../src/language/chat/reply-parser.ts';
import { GrammarCompiler } from '../../../src/language/compiler/compiler.ts';
import { type ConstraintFields, toConstraint } from '../../../src/language/constraint/request-constraint.ts';
import type { CompiledConstraint } from '../../../src/language/grammar/constraint-state.ts';
import { encodeReply } from '../../../src/language/grammar/encode-reply.ts';
import { readTokenizer } from '../../../src/language/tokenizer/read-tokenizer.ts';
import type { ChatFormat } from '../../../src/language/tokenizer/tokenizer.ts';
import { toReply } from '../../../src/service/jobs/example-conversation.ts';
import { randomChooser } from '../grammar/support.ts';

function open(family: string) {
  const folder = new URL(`../fixtures/${family}`, import.meta.url).pathname;
  const tokenizer = readTokenizer(folder);
  return { tokenizer, format: readChatFormat(folder, tokenizer) };
}

const { tokenizer, format } = open('qwen3');
/** One whose template has no switch, and one whose template always begins reasoning. */
const formats = {
  switched: format,
  plain: { ...format, template: format.template.replaceAll('enable_thinking', 'other') },
  opening: {
    ...format,
    template: format.template
      .replaceAll('enable_thinking', 'other')
      .replace("{{- '<|im_start|>assistant\\n' }}", "{{- '<|im_start|>assistant\\n<think>\\n' }}"),
    reasoning: { ...format.reasoning!, opened: true },
  },
};

async function promptOf(own: ChatFormat, options: Partial<RenderOptions>) {
  const renderer = new ConversationRenderer(tokenizer, own);
  const turns = [toTurn(messageSchema.parse({ role: 'user', content: 'Hi' }), [])];
  return (await renderer.render({ turns, tools: undefined }, { addGenerationPrompt: true, ...options }))
    .tokens;
}

const textOf = (tokens: readonly number[]) => tokens.map((token) => tokenizer.text(token)).join('');

async function constrained(own: ChatFormat, fields: ConstraintFields) {
  const constraint = toConstraint(fields, {
    format: own,
    contextLength: 320,
    engine: 'embedded',
    parseJson: (json) => JSON.parse(json),
  });
  const compiled = constraint && (await new GrammarCompiler(tokenizer, own).compile(constraint));
  const encode = (...parts: (string | number)[]) =>
    encodeReply({ parts, constraint }, compiled, tokenizer, own);
  return { constraint, compiled, encode };
}

function walk(compiled: CompiledConstraint, seed: number): number[] {
  const choose = randomChooser(seed);
  const state = compiled.start();
  const tokens: number[] = [];
  for (;;) {
    tokens.push(...state.takeForced());
    if (state.ended) return tokens;
    const { ids } = state.legal();
    const token = ids[choose(ids.length)]!;
    state.accept(token);
    tokens.push(token);
  }
}

function read(tokens: readonly number[], opened = false) {
  const parser = new ReplyParser(tokenizer, {
    endToken: format.endToken,
    format: { calls: null, reasoning: { ...format.reasoning!, opened } },
    stops: { strings: [], tokens: [] },
    show: { special: false, spaces: true, stop: false, reasoning: true },
    echo: '',
  });
  parser.push(tokens);
  parser.end({ finishReason: 'stop', stop: null });
  const { content, reasoning } = parser.message();
  return { content, reasoning };
}

const json = {
  type: 'json_schema',
  json_schema: {
    name: 'n',
    schema: { type: 'object', properties: { a: { enum: [1, 2] } }, required: ['a'] },
  },
} as const;

describe('reasoning_effort in the prompt of a checkpoint', () => {
  const answer = '<|im_start|>assistant\n';
  const empty = '<think>\n\n</think>\n\n';

  it('none: is the prompt of enable_thinking false, or empty reasoning as that template writes it', async () => {
    const expected = await promptOf(format, { values: { enable_thinking: false } });
    expect(textOf(expected).endsWith(answer + empty)).toBe(true);
    for (const own of Object.values(formats))
      expect(await promptOf(own, { reasoningEffort: 'none' })).toEqual(expected);
  });

  it('others: leave reasoning to the reply, and are variables of the template', async () => {
    expect(textOf(await promptOf(formats.switched, { reasoningEffort: 'low' })).endsWith(answer)).toBe(true);
    const opened = await promptOf(formats.opening, { reasoningEffort: 'low' });
    expect(textOf(opened).endsWith(`${answer}<think>\n`)).toBe(true);
    expect(endsInReasoning(opened, format.reasoning!, tokenizer)).toBe(true);
    const told = "{{ reasoning_effort }} {{ 'on' if enable_thinking else 'off' }}";
    const tokens = await promptOf(
      { ...format, template: told + format.template },
      { reasoningEffort: 'low' },
    );
    expect(textOf(tokens).startsWith('low on<|im_start|>')).toBe(true);
  });
});

describe('reasoning_effort in the reply of a checkpoint', () => {
  it('begins it with reasoning of at most so many tokens, then the answer follows its own constraint', async () => {
    for (const own of [formats.switched, formats.opening]) {
      const { opened } = own.reasoning!;
      const { compiled } = await constrained(own, { reasoning_effort: 'low', response_format: json });
      for (let seed = 0; seed < 10; seed++) {
        const tokens = walk(compiled!, seed);
        const { content, reasoning } = read(tokens, opened);
        expect(content).toMatch(/^\{"a":[12]\}$/);
        // A sixteenth of 320 tokens, and the tags.
        expect(tokens.length).toBeLessThan(20 + 12 + 12);
        expect(reasoning).toBeDefined();
        expect(textOf(tokens).startsWith('<think>\n')).toBe(!opened);
      }
    }
  });

  it('ends reasoning at its tag, however that is spelled', async () => {
    const { encode } = await constrained(format, { reasoning_effort: 'high', response_format: json });
    for (const close of [format.reasoning!.tokens!.close, '</think>']) {
      const tokens = encode('<think>\nHm 日本\n', close, '\n\n{"a":1}');
      expect(read(tokens)).toEqual({ content: '{"a":1}', reasoning: 'Hm 日本' });
    }
    expect(() => encode('<think>\nHm\n</think>\n\n{"a":3}')).toThrow('leaves its constraint');
    expect(() => encode('{"a":1}')).toThrow('leaves its constraint');
    expect(() => encode(`<think>\n${'No. '.repeat(80)}\n</think>\n\n{"a":1}`)).toThrow('allows at most 80');
  });

  it('trains the reasoning of an example as it would have been sampled', async () => {
    const { encode, constraint } = await constrained(format, { reasoning_effort: 'high' });
    const message = { role: 'assistant', content: 'Yes.', reasoning: 'Is it? It is.' };
    const tokens = encode(...toReply(toTurn(messageSchema.parse(message), []), constraint, format).parts);
    expect(textOf(tokens)).toBe('<think>\nIs it? It is.\n</think>\n\nYes.<|im_end|>');
    const { open: first, close } = format.reasoning!.tokens!;
    expect([tokens[0], tokens.includes(close)]).toEqual([first, true]);
    expect(read(tokens)).toEqual({ content: 'Yes.', reasoning: 'Is it? It is.' });
  });

  it('is not needed where the prompt has begun reasoning: a constrained answer follows it', async () => {
    const { encode } = await constrained(formats.opening, { response_format: json });
    const tokens = encode('Hm\n</think>\n\n{"a":1}');
    expect(read(tokens, true)).toEqual({ content: '{"a":1}', reasoning: 'Hm' });
    expect((await constrained(formats.opening, {})).constraint).toBeNull();
    const none = await constrained(formats.opening, { response_format: json, reasoning_effort: 'none' });
    expect(none.constraint?.reasoning).toBeUndefined();
  });

  it('is refused without reasoning, unless the template has the variable', async () => {
    const { format: hermes } = open('hermes');
    await expect(constrained(hermes, { reasoning_effort: 'low' })).rejects.toThrow('has no reasoning');
    expect((await constrained(hermes, { reasoning_effort: 'none' })).constraint).toBeNull();
    const told = { ...hermes, template: `${hermes.template}{{ reasoning_effort }}` };
    expect((await constrained(told, { reasoning_effort: 'low' })).constraint).toBeNull();
  });
});
