import { describe, expect, test } from 'vitest';
import { ScriptedEngine } from '../../support/scripted-engine.ts';
import { start } from '../harness.ts';

/** More than is parsed at once. */
const padding = ' '.repeat(300_000);
const path = '/v1/chat/completions';
const hi = { role: 'user', content: 'hi' };
const tool = {
  type: 'function',
  function: { name: 'look', parameters: { type: 'object', properties: { at: { type: 'string' } } } },
};

/** The same request as a short text and as long ones, with white space before, within and after it. */
const forms = (body: object) => {
  const text = JSON.stringify(body);
  return [text, padding + text, `${text.slice(0, -1)}${padding}${text.at(-1)}`, text + padding];
};

const wrong: [string, object][] = [
  ['no messages', { model: 'scripted-tiny' }],
  ['an empty list', { messages: [] }],
  ['messages that are not a list', { messages: { 0: hi } }],
  ['too many messages', { messages: Array(8193).fill(0) }],
  [
    'messages of several faults, tools and documents among them',
    {
      messages: [hi, { role: 'user' }, { role: 'assistant', content: 5, more: 1 }, hi, 'x', null],
      tools: [tool, { type: 'function', function: { name: 'a b' } }, 7],
      documents: [{ a: 1 }, 'text'],
      temperature: 'warm',
    },
  ],
  ['fields that there are not', { messages: [hi], more: { a: [1] }, other: null, further: 'x' }],
  ['tools that are not a list', { messages: [hi], tools: 'all', documents: { a: 1 } }],
  ['two names of one option', { messages: [hi], max_tokens: 5, truncate_prompt_tokens: 'x' }],
  ['a fault behind the form', { messages: [hi], tools: [tool], tool_choice: 'required', regex: 'a' }],
  ['a number', Object(5)],
  ['a list', [hi]],
];

describe('a chat request is read in the same way whatever its size', () => {
  test.each(wrong)('what is wrong with it: %s', async (_, body) => {
    const { call } = await start();
    const [expected, ...others] = await Promise.all(forms(body).map((form) => call('POST', path, form)));
    expect(expected?.status).toBeGreaterThanOrEqual(400);
    for (const { status, body: told } of others)
      expect({ status, told }).toEqual({ status: expected?.status, told: expected?.body });
  });

  test('its sampling parameters', async () => {
    const engine = new ScriptedEngine();
    const { call } = await start({ engine });
    const body = {
      messages: [
        { role: 'system', content: [{ type: 'text', text: 'ü' }], name: null },
        hi,
        { role: 'assistant', content: 'yes', more: null },
        { role: 'user', content: 'zwei\u2028Zeilen "\\' },
      ],
      tools: [tool],
      documents: null,
      max_completion_tokens: 3,
      return_token_ids: true,
    };
    const answers = await Promise.all(forms(body).map((form) => call('POST', path, form)));
    const said = answers.map(({ status, body: { usage, choices } }) => ({ status, usage, choices }));
    expect(said[0]?.status).toBe(200);
    for (const one of said) expect(one).toEqual(said[0]);
  });

  test('a seed keeps every digit of its text', async () => {
    const engine = new ScriptedEngine();
    const { call } = await start({ engine });
    const seeded = JSON.stringify({ messages: [hi], max_tokens: 1, seed: 0 }).replace(
      '"seed":0',
      '"seed":1,"seed":9007199254740993',
    );
    for (const text of [seeded, padding + seeded]) expect((await call('POST', path, text)).status).toBe(200);
    expect(engine.requests.slice(-2).map(({ seed }) => seed)).toEqual([9007199254740993n, 9007199254740993n]);
  });
});
