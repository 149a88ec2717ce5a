import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { messageSchema } from '../../src/contract/index.ts';
import { special, tokensOf } from '../support/scripted-engine.ts';
import { type Json, start } from './harness.ts';

const { user, assistant, end, call, callEnd, tool } = special;

describe('messages', () => {
  const promptOf = async (...messages: object[]) => {
    const { chat, engine } = await start();
    const { status, body } = await chat({ messages });
    if (status !== 200) throw new Error(JSON.stringify(body));
    return engine.requests[0]?.prompt;
  };

  test('have a text or parts as content', async () => {
    const text = (value: string) => ({ type: 'text', text: value });
    expect(await promptOf({ role: 'user', content: [text('a'), text('b')] })).toEqual(
      tokensOf(user, 'ab', end, assistant),
    );
    const parts = [text('Sorry: '), { type: 'refusal', refusal: 'no' }];
    expect(await promptOf({ role: 'assistant', content: parts })).toEqual(
      tokensOf(assistant, 'Sorry: no', end, assistant),
    );
  });

  test('may be a refusal, an old-style function call or its result', async () => {
    expect(
      await promptOf(
        { role: 'assistant', content: null, refusal: 'I will not', tool_calls: null, name: null },
        { role: 'assistant', function_call: { name: 'f', arguments: '{ "a": 1 }' } },
        { role: 'function', name: 'f', content: 'ok' },
        { role: 'function', name: 'f', content: null },
      ),
    ).toEqual([
      ...tokensOf(assistant, 'I will not', end, assistant, call, 'f{"a":1}', callEnd, end),
      ...tokensOf(tool, 'ok', end, tool, end, assistant),
    ]);
  });

  test('may contain all fields of a response', async () => {
    const calls = [{ index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }];
    const nothing = { refusal: null, audio: null, function_call: null, parsed: null, annotations: [] };
    expect(await promptOf({ role: 'assistant', content: 'so', tool_calls: calls, ...nothing })).toEqual(
      tokensOf(assistant, 'so', call, 'f{}', callEnd, end, assistant),
    );
  });

  test('may contain what clients add to a reply', async () => {
    const calls = [toolCall()];
    const added = { parsed: { a: 1 }, provider_specific_fields: { reasoning: 'hm', refusal: null } };
    // As the JavaScript Agents SDK sends back a reply that it did not stream.
    const copies = {
      refusal: null,
      role: 'assistant',
      reasoning: 'hm',
      reasoning_content: 'hm',
      tool_calls: calls,
    };
    const content = [{ type: 'text', text: 'so', ...copies, annotations: [] }];
    const reply = { role: 'assistant', content, reasoning: 'hm', tool_calls: calls, ...added };
    const plain = { role: 'assistant', content: 'so', reasoning: 'hm', tool_calls: calls };
    expect(await promptOf(reply)).toEqual(await promptOf(plain));
  });

  test('with another role go to the chat template, which may refuse it', async () => {
    const { chat, engine } = await start();
    await chat({ messages: [{ role: 'narrator', content: [{ type: 'text', text: 'Night.' }] }] });
    expect(engine.requests[0]?.prompt).toEqual(tokensOf(user, 'Night.', end, assistant));
    const { status, body } = await chat({ messages: [{ role: 'critic', content: 'x' }] });
    expect([status, body.error.code, body.error.message]).toEqual([
      422,
      'chat_template_failed',
      expect.stringContaining('no critics'),
    ]);
  });

  test.each([
    [{ content: 'x', refusal: 'no' }, 'refusal'],
    [{ reasoning: 'a', reasoning_content: 'b' }, 'reasoning_content'],
    [{ function_call: { name: 'f', arguments: '' }, tool_calls: [toolCall()] }, 'function_call'],
    [{ content: 'x', audio: { id: 'a' } }, 'audio'],
  ])('that are contradictory are refused by name: %j', async (fields, name) => {
    const { chat } = await start();
    const { status, body } = await chat({ messages: [{ role: 'assistant', ...fields }] });
    expect([status, body.error.param]).toEqual([422, `messages.0.${name}`]);
  });

  test('with sampled ids outside the vocabulary are refused by path', async () => {
    const { chat } = await start();
    const message = { role: 'assistant', token_ids: [65, 268] };
    const { status, body } = await chat({ messages: [message] });
    expect([status, body.error.param]).toEqual([422, 'messages.0.token_ids.1']);
  });
});

function toolCall() {
  return { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } };
}

describe('an invalid message', () => {
  type Chat = Awaited<ReturnType<typeof start>>['chat'];
  const issuesOf = async (chat: Chat, message: unknown): Promise<[string, string][]> => {
    const { status, body } = await chat({ messages: [message] });
    if (status !== 422) throw new Error(`status ${status}`);
    return body.detail.map(({ loc, msg }: Json) => [loc.slice(2).join('.'), msg]);
  };

  test.each<[unknown, [string, string][]]>([
    [{ role: 'user' }, [['0.content', 'Field required']]],
    [{ role: 'user', content: 5 }, [['0.content', 'Invalid input: expected string, received number']]],
    [
      { role: 'tool' },
      [
        ['0.content', 'Field required'],
        ['0.tool_call_id', 'Field required'],
      ],
    ],
    [
      { role: 'assistant', content: 'x', refusal: 1, reasoning: 2 },
      [
        ['0.refusal', 'Invalid input: expected string, received number'],
        ['0.reasoning', 'Invalid input: expected string, received number'],
      ],
    ],
    [{ role: 'function', content: 'x' }, [['0.name', 'Field required']]],
    [{ role: 'narrator' }, [['0.content', 'Field required']]],
    [{ content: 'x' }, [['0.role', 'Field required']]],
    [{ role: 4, content: 'x' }, [['0.role', 'Invalid input: expected string, received number']]],
  ])('is refused with the rule of its role: %j', async (message, issues) => {
    const { chat } = await start();
    expect(await issuesOf(chat, message)).toEqual(issues);
  });

  test.each([
    [{ role: 'user', content: 'x', token_ids: [1] }, 'token_ids'],
    [{ role: 'user', content: 'x', tool_calls: [] }, 'tool_calls'],
    [{ role: 'assistant', content: 'x', tool_call_id: 'c' }, 'tool_call_id'],
    [{ role: 'assistant', content: 'x', weight: 0 }, 'weight'],
    [{ role: 'narrator', content: 'x', mood: 'dark' }, 'mood'],
    [{ role: 'user', content: [{ type: 'text', text: 'x', cached: true }] }, 'content.0.cached'],
  ])('with an unknown field for its role is refused by name: %j', async (message, path) => {
    const { chat } = await start();
    const { status, body } = await chat({ messages: [message] });
    expect(status).toBe(422);
    expect(body.detail).toMatchObject([
      {
        loc: ['body', 'messages', '0', ...path.split('.')],
        type: 'extra_forbidden',
      },
    ]);
  });

  test('with a part that is not text is refused by the type of the part', async () => {
    const { chat } = await start();
    for (const type of ['image_url', 'input_audio', 'file', 'video_url', 'thinking'])
      for (const role of ['user', 'assistant', 'narrator']) {
        const content = [
          { type: 'text', text: 'a' },
          { type, [type]: {} },
        ];
        expect(await issuesOf(chat, { role, content })).toEqual([
          ['0.content.1.type', expect.stringContaining(`"${type}"`)],
        ]);
      }
  });

  test('with a refusal part is refused for other roles than assistant', async () => {
    const content = [{ type: 'refusal', refusal: 'no' }];
    const { chat } = await start();
    expect(await issuesOf(chat, { role: 'user', content })).toEqual([
      ['0.content.0.type', expect.stringContaining('"refusal"')],
    ]);
  });
});

test('the published schema of messages has the roles with their own fields, and any other role', () => {
  const { $defs = {} } = z.toJSONSchema(messageSchema, { io: 'input' });
  const named = (schema: Json): Json => $defs[schema.$ref?.split('/').at(-1)] ?? schema;
  const variants: Json = $defs.Message?.anyOf;
  expect(variants[0].oneOf.map((schema: Json) => named(schema).properties.role.const)).toEqual([
    'developer',
    'system',
    'user',
    'assistant',
    'tool',
    'function',
  ]);
  expect(named(variants[1]).properties.role.not.enum).toContain('tool');
});
