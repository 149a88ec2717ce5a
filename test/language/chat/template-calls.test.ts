import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { messageSchema } from '../../../src/contract/chat/messages.ts';
import { type Turn, toTurn } from '../../../src/language/chat/conversation.ts';
import { readChatFormat } from '../../../src/language/chat/read-chat-format.ts';
import { ConversationRenderer } from '../../../src/language/chat/render.ts';
import { ReplyParser } from '../../../src/language/chat/reply-parser.ts';
import { ReplyReader } from '../../../src/language/chat/reply-reader.ts';
import { GrammarCompiler } from '../../../src/language/compiler/compiler.ts';
import { type ConstraintFields, toConstraint } from '../../../src/language/constraint/request-constraint.ts';
import { encodeReply } from '../../../src/language/grammar/encode-reply.ts';
import { readTokenizer } from '../../../src/language/tokenizer/read-tokenizer.ts';
import { toReply } from '../../../src/service/jobs/example-conversation.ts';
import { testScale, testSeed } from '../../support/size.ts';

const fixtures = new URL('../fixtures/', import.meta.url);
const textOf = (path: string) => readFileSync(new URL(path, fixtures), 'utf8');

const mistral =
  '<s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT] [ARGS] [CALL_ID]';
const deepseek =
  '<｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜User｜> <｜Assistant｜> <think> </think> <｜tool▁calls▁begin｜> <｜tool▁call▁begin｜> <｜tool▁sep｜> <｜tool▁call▁end｜> <｜tool▁calls▁end｜> <｜tool▁outputs▁begin｜> <｜tool▁output▁begin｜> <｜tool▁output▁end｜> <｜tool▁outputs▁end｜>';

const qwen = '<|endoftext|> <|im_end|> <|im_start|> <tool_call> </tool_call>';

/** A published template on a small tokenizer with its special tokens, of which the second ends replies. */
function open(template: string, added: string) {
  const tokens = added.split(' ');
  const [bos_token, eos_token] = tokens;
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  const added_tokens = tokens.map((content, index) => ({ id: 700 + index, content, ...flags }));
  const files: Record<string, string> = {
    'tokenizer.json': JSON.stringify({
      ...JSON.parse(textOf('llama3/tokenizer.json')),
      added_tokens,
      post_processor: null,
    }),
    'tokenizer_config.json': JSON.stringify({ bos_token, eos_token }),
    // DeepSeek's show no tools.
    'chat_template.jinja': textOf(`templates/${template}.jinja`).replace(
      /\{\{ ?bos_token ?\}\}(?=\{)/,
      '{{bos_token}}{% if tools %}{{ tools | tojson }}{% endif %}',
    ),
  };
  const model = {
    path: template,
    pathOf: (name: string) => name,
    bytes: (name: string) => (name in files ? Buffer.from(files[name] ?? '') : null),
  };
  const tokenizer = readTokenizer(model);
  const format = readChatFormat(model, tokenizer);
  return { tokenizer, format, renderer: new ConversationRenderer(tokenizer, format) };
}

interface Called {
  id: string;
  name: string;
  arguments: Record<string, unknown>;
}

const called: Called[] = [
  { id: 'abcDEF123', name: 'add', arguments: { a: 1, b: [2.5, { x: null, y: [true] }] } },
  {
    id: 'call_0123456789',
    name: 'find',
    arguments: { text: 'it\'s "so"\n\\ </tool_call>[TOOL_CALLS]]} é😀' },
  },
];

/** A template, its added tokens, and what it writes of the calls above. */
const templates: [template: string, added: string, written: (json: string[], ids: string[]) => string][] = [
  [
    'mistral-v3',
    mistral,
    ([a, b], [x, y]) =>
      `[TOOL_CALLS][{"name": "add", "arguments": ${a}, "id": "${x}"}, {"name": "find", "arguments": ${b}, "id": "${y}"}]`,
  ],
  [
    'mistral-v11',
    mistral,
    ([a, b], [x, y]) => `[TOOL_CALLS]add[CALL_ID]${x}[ARGS]${a}[TOOL_CALLS]find[CALL_ID]${y}[ARGS]${b}`,
  ],
  ['mistral-v13', mistral, ([a, b]) => `[TOOL_CALLS]add[ARGS]${a}[TOOL_CALLS]find[ARGS]${b}`],
  [
    'deepseek-r1-distill',
    deepseek,
    ([a, b]) =>
      `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n\`\`\`json\n${a}\n\`\`\`<｜tool▁call▁end｜>\n` +
      `<｜tool▁call▁begin｜>function<｜tool▁sep｜>find\n\`\`\`json\n${b}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  ],
  [
    'deepseek-v3.1',
    deepseek,
    ([a, b]) =>
      `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>${a}<｜tool▁call▁end｜>` +
      `<｜tool▁call▁begin｜>find<｜tool▁sep｜>${b}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  ],
  [
    'qwen3-coder',
    qwen,
    ([, b]) =>
      `<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n[2.5,{"x":null,"y":[true]}]\n</parameter>\n</function>\n</tool_call>\n` +
      `<tool_call>\n<function=find>\n<parameter=text>\n${JSON.parse(b ?? '').text}\n</parameter>\n</function>\n</tool_call>`,
  ],
];

const user: Turn = { role: 'user', content: 'Hi', toolCalls: [] };
const tools: ConstraintFields['tools'] = ['add', 'find'].map((name) => ({
  type: 'function',
  function: { name, parameters: { type: 'object' } },
}));

const assistant = (content: string | null, calls: readonly Called[]): Turn =>
  toTurn(
    messageSchema.parse({
      role: 'assistant',
      content,
      tool_calls: calls.map(({ id, name, arguments: value }) => ({
        id,
        type: 'function',
        function: { name, arguments: JSON.stringify(value) },
      })),
    }),
    [],
  );

/** What tells texts without quotes from other values: here, the name. */
const typesOf = (_: string, argument: string) =>
  new Set(argument.startsWith('t') ? ['string'] : ['number', 'boolean', 'null', 'object', 'array']);

describe.each(templates)('calls as the template %s writes them', (template, added, written) => {
  const { tokenizer, format, renderer } = open(template, added);
  const special = new Set(tokenizer.special.values());
  const bytesOf = (token: number) =>
    special.has(token) ? Buffer.from(tokenizer.text(token)) : tokenizer.bytes(token);
  const shown = (tokens: readonly number[]) => Buffer.concat(tokens.map(bytesOf)).toString();
  const reasoning = format.reasoning && { ...format.reasoning, opened: false };

  async function constrained(fields: Partial<ConstraintFields> = {}) {
    const constraint = toConstraint(
      { tools, reasoning_effort: reasoning ? 'none' : undefined, ...fields },
      { format, contextLength: 1000, engine: 'embedded', parseJson: (json) => JSON.parse(json) },
    );
    const compiled = constraint && (await new GrammarCompiler(tokenizer, format).compile(constraint));
    return {
      encode: (parts: (string | number)[]) => encodeReply({ parts, constraint }, compiled, tokenizer, format),
      partsOf: (turn: Turn) => toReply(turn, constraint, format).parts,
    };
  }

  function parsed(tokens: readonly number[]) {
    const parser = new ReplyParser(tokenizer, {
      endToken: format.endToken,
      format: { calls: format.calls, reasoning },
      stops: { strings: [], tokens: [] },
      show: { special: false, spaces: true, stop: false, reasoning: true },
      echo: '',
    });
    for (const token of tokens) parser.push([token]);
    parser.end({ finishReason: 'stop', stop: null });
    const { content, tool_calls: calls } = parser.message();
    return {
      content,
      calls: (calls ?? []).map(({ function: { name, arguments: json } }) => ({
        name,
        arguments: JSON.parse(json),
      })),
    };
  }

  it('are written, token for token, as it writes them', async () => {
    const turn = assistant(null, called);
    const { tokens } = await renderer.render({ turns: [user, turn], tools }, { addGenerationPrompt: false });
    const asked = await renderer.render({ turns: [user], tools }, { addGenerationPrompt: false });
    const { partsOf } = await constrained({ tool_choice: 'required' });
    const json = called.map(({ arguments: value }) => JSON.stringify(value));
    const ids = ['abcDEF123', 'ab14600fc'];
    const parts = partsOf(turn);
    const whole = parts.map((part) => (typeof part === 'number' ? tokenizer.text(part) : part)).join('');
    expect(whole).toBe(written(json, ids));
    const rendered = shown(tokens.slice(asked.tokens.length));
    const space = (text: string) => text.replaceAll(/(?<=[:,]) /g, '');
    expect(space(rendered)).toContain(space(whole) + tokenizer.text(format.endToken));
    const tags = Object.values(format.calls?.tokens ?? {});
    const tagsIn = (list: readonly (number | string)[]) => list.filter((part) => tags.includes(Number(part)));
    expect(tagsIn(parts)).toEqual(tagsIn(tokens.slice(asked.tokens.length)));
  });

  it('are legal where they are required, and read as they were', async () => {
    const { encode, partsOf } = await constrained({ tool_choice: 'required' });
    const turn = assistant(null, called);
    const tokens = encode(partsOf(turn));
    expect(parsed(tokens)).toEqual({
      content: null,
      calls: called.map(({ name, arguments: value }) => ({ name, arguments: value })),
    });
    const one = assistant(null, called.slice(0, 1));
    const named = await constrained({ tool_choice: { type: 'function', function: { name: 'add' } } });
    expect(parsed(named.encode(named.partsOf(one))).calls).toHaveLength(1);
    expect(() => named.encode(named.partsOf(turn))).toThrow('leaves its constraint');
    for (const wrong of [assistant('Hello', []), assistant(null, [{ id: '', name: 'sub', arguments: {} }])])
      expect(() => encode(partsOf(wrong))).toThrow('leaves its constraint');
  });

  it('may follow text', async () => {
    const { encode, partsOf } = await constrained();
    const tokens = encode(partsOf(assistant('I look.', called)));
    expect(parsed(tokens)).toMatchObject({ content: 'I look.', calls: [{ name: 'add' }, { name: 'find' }] });
    expect(parsed(encode(partsOf(assistant('Just [text] {"name": 1}', []))))).toEqual({
      content: 'Just [text] {"name": 1}',
      calls: [],
    });
  });

  it('stay as they were sampled, and their results have their ids', async () => {
    const { encode, partsOf } = await constrained({ tool_choice: 'required' });
    const tokenIds = encode(partsOf(assistant(null, called)));
    const sampled: Turn = { role: 'assistant', content: '', toolCalls: [], tokenIds };
    const results = ['call_a', 'call_b'].map(
      (toolCallId): Turn => ({ ...user, role: 'tool', content: '3', toolCallId }),
    );
    const turns = [user, sampled, ...results];
    const { tokens, splices } = await renderer.render({ turns, tools }, { addGenerationPrompt: true });
    const { start, length } = splices[0] ?? { start: 0, length: 0 };
    expect(tokens.slice(start, start + length)).toEqual(tokenIds);
    const after = shown(tokens.slice(start + length));
    if (format.calls?.after.includes('\0') || format.calls?.beforeArguments.includes('\0'))
      expect(after).toMatch(/abcDEF123.*ab14600fc/);
    // A reply to the results goes on from there.
    const reply: Turn = { ...sampled, tokenIds: [...tokenizer.encode('Three'), format.endToken] };
    const next = await renderer.render({ turns: [...turns, reply], tools }, { addGenerationPrompt: false });
    expect(next.splices).toHaveLength(2);
    expect(shown(next.tokens)).toContain(`${shown(tokens)}Three`);
  });

  it('are read the same in any pieces, and cut anywhere show no tag', () => {
    const value = fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.constantFrom(']', '}', '[ARGS]', '```', '<｜tool▁call▁end｜>'),
    );
    const call = fc.record({
      id: fc.constant('abcdefgh1'),
      name: fc.constantFrom('add', 'find-it'),
      arguments: fc
        .dictionary(template === 'qwen3-coder' ? fc.stringMatching(/^[a-z-]*$/) : fc.string(), value)
        .map((named) =>
          Object.fromEntries(
            Object.entries(named).map(([name, one]) => [
              `${typeof one === 'string' ? 't' : 'v'}${name}`,
              one,
            ]),
          ),
        ),
    });
    fc.assert(
      fc.property(
        fc.array(call, { minLength: 1, maxLength: 3 }),
        fc.constantFrom('', 'Text.'),
        fc.infiniteStream(fc.integer({ min: 1, max: 12 })),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (calls, before, lengths, cut) => {
          const turn = assistant(before, calls as Called[]);
          const text = toReply(turn, null, format)
            .parts.map((part) => (typeof part === 'number' ? tokenizer.text(part) : part))
            .join('');
          const read = (whole: string, isCut: boolean) => {
            const reader = new ReplyReader({ calls: format.calls, reasoning, typesOf });
            const pieces = [];
            for (let at = 0; at < whole.length; ) {
              const { value: length = 1 } = lengths.next();
              pieces.push(...reader.push(whole.slice(at, at + length)));
              at += length;
            }
            pieces.push(...reader.end({ isCut }));
            const found: { name: string; json: string }[] = [];
            let content = '';
            for (const piece of pieces)
              if (piece.type === 'call') found.push({ name: piece.name, json: piece.arguments });
              else if (piece.type === 'arguments') found.at(-1)!.json += piece.text;
              else content += piece.text;
            return { content, found };
          };
          const whole = read(text, false);
          expect(whole.content).toBe(before);
          expect(whole.found.map(({ name, json }) => [name, JSON.stringify(JSON.parse(json))])).toEqual(
            turn.toolCalls.map(({ name, arguments: json }) => [name, JSON.stringify(JSON.parse(json))]),
          );
          const part = read(text.slice(0, Math.floor(text.length * cut)), true);
          expect(before.startsWith(part.content)).toBe(true);
          for (const [index, { name, json }] of part.found.entries()) {
            expect(name).toBe(whole.found[index]?.name);
            expect(whole.found[index]?.json.startsWith(json)).toBe(true);
          }
        },
      ),
      { seed: testSeed, numRuns: 40 * testScale },
    );
  });

  it('are text if they are malformed', () => {
    const tag = Object.keys(format.calls?.tokens ?? {})[0] ?? '';
    const reader = new ReplyReader({ calls: format.calls, reasoning });
    const pieces = [...reader.push(`So ${tag}no call`), ...reader.end({ isCut: false })];
    expect(pieces.map((piece) => (piece.type === 'content' ? piece.text : '?')).join('')).toBe(
      `So${tag}no call`,
    );
  });
});
