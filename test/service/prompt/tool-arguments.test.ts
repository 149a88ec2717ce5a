import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { messageSchema } from '../../../src/contract/index.ts';
import { toTurn } from '../../../src/language/chat/conversation.ts';
import { ConversationRenderer } from '../../../src/language/chat/render.ts';
import { baseModel, ScriptedEngine } from '../../support/scripted-engine.ts';

/** The arguments of an assistant's calls in a prompt. */
const writtenOf = (fields: object) =>
  toTurn(messageSchema.parse({ role: 'assistant', ...fields }), []).toolCalls.map((call) => call.arguments);

const written = (...given: string[]) =>
  writtenOf({
    tool_calls: given.map((text, index) => ({
      id: `c${index}`,
      type: 'function',
      function: { name: 'go', arguments: text },
    })),
  });

/** More than a million members. */
const heavy = `{ ${Array.from({ length: 1_200_000 }, (_, index) => `"${index.toString(36)}": 1`).join(', ')} }`;

test('arguments of many megabytes are not parsed: they enter the prompt unchanged', () => {
  const parse = vi.spyOn(JSON, 'parse');
  try {
    expect(written(heavy)).toEqual([heavy]);
    expect(writtenOf({ function_call: { name: 'go', arguments: heavy } })).toEqual([heavy]);
    expect(parse).not.toHaveBeenCalled();
  } finally {
    parse.mockRestore();
  }
});

test('at most 65,536 characters of the arguments of one message are parsed', () => {
  const text = `{ "a": "${'x'.repeat(1000)}" }`;
  const compact = text.replaceAll(' ', '');
  const fit = Math.floor(65_536 / text.length);
  const [first, last] = [Array(fit).fill(compact), Array(200 - fit).fill(text)];
  expect(written(...Array(200).fill(text))).toEqual([...first, ...last]);
  // Another message has its own limit.
  expect(written(text)).toEqual([compact]);
});

test('arguments that are nested more deeply than a body are not parsed', () => {
  const nested = (depth: number) => `${'[ '.repeat(depth)}${']'.repeat(depth)}`;
  expect(written(nested(1000), nested(1001))).toEqual([nested(1000).replaceAll(' ', ''), nested(1001)]);
});

test('all other arguments are written as models write them', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(0, 1, 4), (value, spaces) => {
      const text = JSON.stringify(value, null, spaces);
      expect(written(text, `no JSON ${text}`)).toEqual([JSON.stringify(JSON.parse(text)), `no JSON ${text}`]);
    }),
    { seed: 7, numRuns: 200 },
  );
});

test('a conversation with more messages and calls than tokens in the context is refused before it is rendered', async () => {
  const engine = new ScriptedEngine();
  const renderer = new ConversationRenderer(engine.tokenizer(), engine.chatFormat());
  const { contextLength } = baseModel;
  const conversationOf = (count: number) => {
    const call = { id: 'c', name: 'f', arguments: '{}' };
    const turn = { role: 'assistant', content: '', toolCalls: Array(31).fill(call) };
    return { turns: Array(count).fill(turn), tools: undefined };
  };
  const options = { addGenerationPrompt: false, contextLength };
  expect((await renderer.render(conversationOf(10), options)).tokens.length).toBeGreaterThan(310);
  await expect(renderer.render(conversationOf(65), options)).rejects.toThrow(
    /^The prompt has 2080 messages and tool calls; .* allows at most 2048/,
  );
});

test('numbers and the order of members are written as they were sent', () => {
  const text =
    '{ "id": 2512292042121000001, "x": [1e400, 1.0, 0.1234567890123456789, -0, 1E5],\n "10": "\\u00e9 1.0", "2": null }';
  expect(written(text)).toEqual([
    '{"id":2512292042121000001,"x":[1e400,1.0,0.1234567890123456789,-0,1E5],"10":"é 1.0","2":null}',
  ]);
});
