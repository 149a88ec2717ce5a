import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ReplyParser } from '../../../src/language/chat/reply-parser.ts';
import {
  byteTokenizer,
  ScriptedEngine,
  type ScriptedReply,
  special,
  tokensOf,
} from '../../support/scripted-engine.ts';
import { frames, type Json, start } from '../harness.ts';

/** The texts of a reply, whole and streamed; they must be equal. */
async function textOf(
  reply: ScriptedReply,
  fields: object,
  calls?: number,
): Promise<{ text: string; choice: Json }> {
  const { chat, raw, engine } = await start();
  engine.replies = [reply];
  const { body } = await chat(fields);
  const streamed = await raw('POST', '/v1/chat/completions', {
    messages: [{ role: 'user', content: 'hi' }],
    ...fields,
    stream: true,
  });
  const pieces = frames(await streamed.text()).flatMap((chunk) => chunk.choices);
  const text = body.choices[0].message.content;
  expect(pieces.map(({ delta }) => delta.content ?? '').join('')).toBe(text ?? '');
  if (calls !== undefined)
    expect(pieces.flatMap(({ delta }) => delta.tool_calls ?? []).filter(({ id }) => id)).toHaveLength(calls);
  const endOf = ({ finish_reason, stop_reason, stop_string }: Json) => [
    finish_reason,
    stop_reason,
    stop_string,
  ];
  expect(endOf(pieces.at(-1))).toEqual(endOf(body.choices[0]));
  return { text, choice: body.choices[0] };
}

const shown = { skip_special_tokens: false };

test('the text ends before a stop string; the token ids stay complete', async () => {
  const tokens = tokensOf('one END');
  const { text, choice } = await textOf({ tokens, stop: 'END' }, { stop: ['END'], return_token_ids: true });
  expect(text).toBe('one ');
  expect(choice).toMatchObject({
    ...{ finish_reason: 'stop', stop_reason: null, stop_string: 'END', token_ids: tokens },
  });
});

test.each<[string, ScriptedReply, object, string]>([
  ['a stop string', { tokens: tokensOf('one END'), stop: 'END' }, { stop: 'END' }, 'one END'],
  ['a stop token of text', { tokens: tokensOf('one', 33), stop: 33 }, { stop_token_ids: [33] }, 'one!'],
  ['the end token, which is not text', { tokens: tokensOf('one', special.end) }, {}, 'one'],
  ['the end token, shown', { tokens: tokensOf('one', special.end) }, shown, 'one <|end|>'],
  [
    'a special stop token, shown',
    { tokens: tokensOf('one', special.tool), stop: special.tool },
    { ...shown, stop_token_ids: [special.tool] },
    'one <|tool|>',
  ],
])('%s stays in the text with include_stop_str_in_output', async (_name, reply, fields, whole) => {
  expect((await textOf(reply, { ...fields, include_stop_str_in_output: true })).text).toBe(whole);
  const without = (await textOf(reply, fields)).text;
  expect(without).toBe(whole.startsWith('one ') && 'stop' in fields ? 'one ' : 'one');
});

test('text after the stop string in the same token is cut off', async () => {
  const reply = { tokens: tokensOf('x', 260), stop: 'a' };
  expect((await textOf(reply, { stop: 'a' })).text).toBe('x');
  expect((await textOf(reply, { stop: 'a', include_stop_str_in_output: true })).text).toBe('xa');
});

test('only the stop string at which the engine stopped ends the text', async () => {
  const reply = { tokens: tokensOf('END one END'), stop: 'END' };
  expect((await textOf(reply, { stop: 'END', min_tokens: 4 })).text).toBe('END one ');
});

test.each<[object, string]>([
  [{}, 'ab'],
  [shown, 'a <|end|> <|end|> b'],
  [{ ...shown, spaces_between_special_tokens: false }, 'a<|end|><|end|>b'],
  [{ ...shown, spaces_between_special_tokens: true }, 'a <|end|> <|end|> b'],
  [{ spaces_between_special_tokens: true }, 'ab'],
])('special tokens within a reply with %j', async (fields, text) => {
  const reply: ScriptedReply = {
    tokens: tokensOf('a', special.end, special.end, 'b'),
    finishReason: 'length',
  };
  expect((await textOf(reply, { ignore_eos: true, ...fields })).text).toBe(text);
});

test('a last token that did not end the reply is shown like any other', async () => {
  const reply: ScriptedReply = { tokens: tokensOf('a', special.end), finishReason: 'length' };
  expect((await textOf(reply, { ignore_eos: true, ...shown })).text).toBe('a <|end|>');
});

test('tags around reasoning and calls are not text', async () => {
  const tokens = tokensOf(
    special.think,
    'hm',
    special.answer,
    'hi',
    special.call,
    'f{}',
    special.callEnd,
    special.end,
  );
  const { choice, text } = await textOf(
    { tokens },
    {
      ...{ reasoning_effort: 'low', ...shown },
      tools: [{ type: 'function', function: { name: 'f' } }],
    },
  );
  expect(text).toBe('hi');
  expect(choice.message).toMatchObject({ reasoning: 'hm', tool_calls: [{ function: { arguments: '{}' } }] });
});

test('echo begins the content with the last message if it is the assistant’s', async () => {
  const assistant = { role: 'assistant', content: 'Well, ' };
  const user = { role: 'user', content: 'hi' };
  const reply = { tokens: tokensOf('hello', special.end) };
  expect((await textOf(reply, { messages: [user, assistant], echo: true })).text).toBe('Well, hello');
  expect((await textOf(reply, { messages: [user, assistant], echo: false })).text).toBe('hello');
  expect((await textOf(reply, { messages: [assistant, user], echo: true })).text).toBe('hello');
  const call = { tokens: tokensOf(special.call, 'f{}', special.callEnd, special.end) };
  const tools = [{ type: 'function', function: { name: 'f' } }];
  expect((await textOf(call, { messages: [user, assistant], tools, echo: true })).text).toBe('Well, ');
});

const calling = { tools: [{ type: 'function', function: { name: 'go' } }] };
const whole = { name: 'go', arguments: '{}' };

test.each<[string, ScriptedReply, object, string, object[]]>([
  [
    'a stop string within arguments',
    { tokens: tokensOf(special.call, 'go{"a":1,'), stop: ',' },
    { stop: ',' },
    'stop',
    [{ name: 'go', arguments: '{"a":1' }],
  ],
  [
    'a stop token within arguments',
    { tokens: tokensOf(special.call, 'go{"a'), stop: 97 },
    { stop_token_ids: [97] },
    'stop',
    [{ name: 'go', arguments: '{"' }],
  ],
  ['a stop string in a name', { tokens: tokensOf(special.call, 'go'), stop: 'o' }, { stop: 'o' }, 'stop', []],
  [
    'a stop string in a name, shown',
    { tokens: tokensOf(special.call, 'go'), stop: 'o' },
    { stop: 'o', include_stop_str_in_output: true },
    'stop',
    [],
  ],
  [
    'the length, in a name',
    { tokens: tokensOf(special.call, 'g'), finishReason: 'length' },
    {},
    'length',
    [],
  ],
  [
    'a stop string in the name of a second call',
    { tokens: tokensOf(special.call, 'go{}', special.callEnd, special.call, 'go'), stop: 'go' },
    { stop: 'go', min_tokens: 5 },
    'tool_calls',
    [whole],
  ],
  [
    'a stop token between calls, shown',
    { tokens: tokensOf(special.call, 'go{}', special.callEnd, special.call), stop: special.call },
    { stop_token_ids: [special.call], include_stop_str_in_output: true, skip_special_tokens: false },
    'tool_calls',
    [whole],
  ],
  [
    'the end token',
    { tokens: tokensOf(special.call, 'go{}', special.callEnd, special.end) },
    {},
    'tool_calls',
    [whole],
  ],
])('a call ended by %s', async (_name, reply, fields, finish, called) => {
  const { choice } = await textOf(reply, { ...calling, ...fields }, called.length);
  expect(choice.finish_reason).toBe(finish);
  expect((choice.message.tool_calls ?? []).map((call: Json) => call.function)).toEqual(called);
  expect(choice.message.content).toBe(called.length > 0 ? null : '');
});

const stopStrings = ['ab', 'b€', 'aab'];
const replyTokens = fc.array(
  fc.oneof(
    fc.constantFrom(97, 98, 260, special.end, special.think),
    fc.constantFrom(special.answer, special.call, special.callEnd, ...tokensOf('{}')),
    fc.constantFrom(...tokensOf('€')),
    fc.nat({ max: 255 }),
  ),
  { maxLength: 30 },
);

test('however a reply is cut into deltas, they add up to the message', () => {
  const parse = (deltas: number[][], spaces: boolean, stop: boolean, end: { stop: string | null }) => {
    const parser = new ReplyParser(byteTokenizer, {
      ...{ endToken: special.end, echo: '' },
      format: new ScriptedEngine().chatFormat(),
      stops: { strings: stopStrings, tokens: [7] },
      show: { special: true, spaces, stop, reasoning: true },
    });
    const parts = [
      ...deltas.map((tokens) => parser.push(tokens)),
      parser.end({ finishReason: 'stop', ...end }),
    ];
    const calls: { id: string; name: string; arguments: string }[] = [];
    for (const { index, id = '', name = '', arguments: text } of parts.flatMap((delta) => delta.calls)) {
      const known = calls[index];
      if (known) known.arguments += text;
      else calls[index] = { id, name, arguments: text };
    }
    const message = parser.message();
    expect(calls).toEqual(message.tool_calls?.map(({ id, function: called }) => ({ id, ...called })) ?? []);
    for (const call of message.tool_calls ?? []) call.id = '';
    expect(parts.map(({ content }) => content).join('')).toBe(message.content ?? '');
    expect(parts.map(({ reasoning }) => reasoning).join('')).toBe(message.reasoning ?? '');
    return { message, finishReason: parser.finishReason({ finishReason: 'stop', ...end }) };
  };
  const options = [replyTokens, fc.array(fc.nat({ max: 3 })), fc.boolean(), fc.boolean()] as const;
  fc.assert(
    fc.property(
      ...options,
      fc.option(fc.constantFrom(...stopStrings)),
      (tokens, sizes, spaces, show, stop) => {
        const all = stop === null ? tokens : [...tokens, ...tokensOf(stop)];
        const deltas: number[][] = [];
        for (let from = 0, turn = 0; from < all.length; turn++) {
          const size = sizes[turn] ?? 1;
          deltas.push(all.slice(from, from + size));
          from += size;
        }
        expect(parse(deltas, spaces, show, { stop })).toEqual(parse([all], spaces, show, { stop }));
      },
    ),
    { seed: 11, numRuns: 500 },
  );
});
