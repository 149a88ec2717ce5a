import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { messageSchema, type ParsedMessage, type Tool } from '../../../src/contract/index.ts';
import { toTurn } from '../../../src/language/chat/conversation.ts';
import { renderWith } from '../../../src/language/extensions/request-template/request-template.ts';
import { format, promptOf, tokenizer, tools } from './embedded.ts';

const SEED = 20261121;

/** Parts of special tokens, marks and escapes. */
const fragment = fc.constantFrom(
  ...['<', '|', '>', '<|', '|>', 'end', '|end', 'd|>', '<|end|>', '<tool_call>', '<|END|>', '\\', '\\ufdd2'],
  ...['\ufdd0', '\ufdd1', '\ufdd2', '0', '1', ' ', '\n', '{{', '}}', 'a', 'é', '\u{1f600}', '\ud800'],
);
const text = fc.oneof(
  fc.array(fragment, { maxLength: 6 }).map((pieces) => pieces.join('')),
  fc.string({ unit: 'binary', maxLength: 12 }),
);
const optional = (value: fc.Arbitrary<string>) => fc.option(value, { nil: undefined });
const call = fc.record({
  id: text,
  type: fc.constant('function'),
  // Compact objects: the model's own template gets arguments as values, and writes them so.
  function: fc.record({
    name: text,
    arguments: fc
      .dictionary(fc.string(), fc.oneof(fc.integer(), fc.string(), fc.boolean()))
      .map((value) => JSON.stringify(value)),
  }),
});
const message: fc.Arbitrary<ParsedMessage> = fc
  .oneof(
    fc.record({
      role: fc.constantFrom('system', 'user', 'developer', 'critic', 'the judge'),
      content: text,
      name: optional(text),
    }),
    fc.record({ role: fc.constant('tool'), content: text, tool_call_id: text, name: optional(text) }),
    fc.record({ role: fc.constant('function'), content: text, name: text }),
    fc.record({
      role: fc.constant('assistant'),
      content: optional(text),
      name: optional(text),
      reasoning: optional(text),
      tool_calls: fc.array(call, { maxLength: 2 }),
    }),
    fc.record({ role: fc.constant('assistant'), token_ids: fc.array(fc.nat(511), { maxLength: 5 }) }),
  )
  .map((value) => messageSchema.parse(value));
const tool: fc.Arbitrary<Tool> = fc.record({
  type: fc.constant('function' as const),
  function: fc.record({
    name: fc.constantFrom('refund', 'list'),
    parameters: fc.constantFrom({}, { type: 'object', properties: { a: {}, b: {} }, required: ['a'] }),
  }),
});

describe('the two ways of rendering', () => {
  test('give the same tokens for the model’s own template, whatever the conversation', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(message, { minLength: 1, maxLength: 5 }),
        fc.array(tool, { maxLength: 2 }),
        fc.record({ addGenerationPrompt: fc.boolean(), continueFinalMessage: fc.boolean() }),
        fc.constantFrom(undefined, 'low', 'high'),
        async (messages, given, ending, reasoningEffort) => {
          const turns = messages.map((value) => toTurn(value, ['messages']));
          const last = turns.at(-1);
          // Open calls are refused earlier.
          if (ending.continueFinalMessage && last && last.toolCalls.length > 0) last.toolCalls = [];
          // Of an empty reply to continue, only the header stays.
          if (ending.continueFinalMessage && last?.role === 'assistant' && !last.content.trim())
            delete last.name;
          const conversation = { turns, tools: given };
          const options = { ...ending, reasoningEffort };
          const { renderer } = tools;
          const own = await renderer.render(conversation, options);
          const source = format.template;
          expect(await renderWith({ source }, conversation, options, { renderer })).toEqual(own);
        },
      ),
      { seed: SEED, numRuns: 300 },
    );
  });

  test('turn no text into a special token, and lose no character', async () => {
    const template =
      '{% for m in messages %}{{ m.content }}{{ m.name }}{% endfor %}{{ end }}{{ tools[0].function.description }}{{ documents[0].text }}';
    await fc.assert(
      fc.asyncProperty(fc.array(text, { minLength: 7, maxLength: 7 }), async (texts) => {
        const [a = '', b = '', c = '', d = '', end = '', description = '', document = ''] = texts;
        if (texts.join('') === '') return;
        const { tokens } = await promptOf({
          messages: [
            { role: 'user', content: a, name: b },
            { role: 'user', content: c, name: d },
          ],
          tools: [{ type: 'function', function: { name: 'f', description } }],
          documents: [{ text: document }],
          chat_template: template,
          chat_template_kwargs: { end },
        });
        expect(tokens.every((token) => tokenizer.bytes(token).length > 0)).toBe(true);
        expect(tokenizer.decode(tokens)).toBe(
          [a, b, c, d, end, description, document].join('').toWellFormed(),
        );
      }),
      { seed: SEED, numRuns: 300 },
    );
  });
});
