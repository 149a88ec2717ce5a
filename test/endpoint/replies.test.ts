import Anthropic from '@anthropic-ai/sdk';
import { closeEndpoints, ModelHandle } from 'martingale';
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import type { ChatCompletionRequest, Choice, ToolCall } from '../../src/contract/index.ts';
import { completionsOf, name, openDesk, openRollout } from './support.ts';

const user = (content: string) => ({ role: 'user' as const, content });
const assistant = (content: string) => ({ role: 'assistant' as const, content });

const toolCall = (id: string, input: string): ToolCall => ({
  ...{ id, type: 'function' },
  function: { name: 'f', arguments: input },
});

type Say = (call: number) => { content: string; reasoning?: string; tool_calls?: ToolCall[] };
const thinking: Say = (call) => ({ content: `answer ${call}`, reasoning: `thought ${call}` });

/** A source whose every reply has ids of its own, and that remembers what it was sent. */
function reasoning(say: Say) {
  const requests: ChatCompletionRequest[] = [];
  const create = async (request: ChatCompletionRequest) => {
    requests.push(request);
    const call = requests.length;
    const choice: Choice = {
      index: 0,
      message: { role: 'assistant', ...say(call) },
      finish_reason: 'stop',
      token_ids: [call, 99],
      logprobs: { content: [] },
    };
    const ids = request.messages.flatMap((message) =>
      'token_ids' in message && message.token_ids
        ? message.token_ids
        : [1000 + String(message.content).length],
    );
    const head = { id: 'x', created: 0, model: name, prompt_token_ids: ids };
    const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
    if (!request.stream) return { ...head, object: 'chat.completion', choices: [choice], usage };
    const { message, ...rest } = choice;
    const chunk = (delta: object, more: object = {}) => ({
      ...{ ...head, object: 'chat.completion.chunk' },
      choices: [{ index: 0, delta, finish_reason: null, ...more }],
    });
    return (async function* () {
      yield chunk({ reasoning: message.reasoning });
      yield chunk({ content: message.content }, rest);
    })();
  };
  return { requests, completions: completionsOf(create) };
}

async function openReasoning(say: Say = thinking) {
  const { requests, completions } = reasoning(say);
  const { endpoint, trajectory } = openRollout();
  const { baseUrl, apiKey } = await endpoint(new ModelHandle({ name, completions }));
  const client = new OpenAI({ baseURL: baseUrl, apiKey });
  const anthropic = new Anthropic({ baseURL: baseUrl, apiKey, authToken: null });
  return { client, anthropic, requests, trajectory, [Symbol.asyncDispose]: closeEndpoints };
}

test('of two replies that say the same in other tokens each is gone on from once', async () => {
  await using opened = await openReasoning((call) => ({ content: call <= 2 ? 'same' : `answer ${call}` }));
  const { client, requests, trajectory } = opened;
  const ask = (messages: OpenAI.ChatCompletionMessageParam[]) =>
    client.chat.completions.create({ model: 'any', messages });
  await Promise.all([ask([user('a')]), ask([user('a')])]);
  for (const say of ['b', 'c']) await ask([user('a'), assistant('same'), user(say)]);
  await ask([user('a'), assistant('same'), user('b'), assistant('answer 3'), user('d')]);
  expect(trajectory.histories.map(({ choices }) => choices.length).sort()).toEqual([2, 3]);
  const ids = requests
    .slice(2, 4)
    .map(({ messages: [, reply] }) => reply && 'token_ids' in reply && reply.token_ids);
  expect(new Set(ids.map(String)).size).toBe(2);
});

test('a chat client without reasoning continues from a reply that has it', async () => {
  await using opened = await openReasoning();
  const { client, requests, trajectory } = opened;
  const messages: OpenAI.ChatCompletionMessageParam[] = [user('a')];
  for (const say of ['b', 'c']) {
    const { choices } = await client.chat.completions.create({ model: 'any', messages });
    messages.push(assistant(choices[0]?.message.content ?? ''), user(say));
  }
  expect(requests[1]?.messages[1]).toMatchObject({ reasoning: 'thought 1', token_ids: [1, 99] });
  expect(trajectory.histories).toHaveLength(1);
  await client.chat.completions.create({
    model: 'any',
    // Reasoning that is there and says something else is an edit.
    messages: [
      user('a'),
      { ...assistant('answer 1'), reasoning: 'other' } as OpenAI.ChatCompletionMessageParam,
      user('b'),
    ],
  });
  expect(requests[2]?.messages[1]).not.toHaveProperty('token_ids');
});

test.each([
  ['reasoning, text and calls', ['reasoning', 'content', 'tool_calls']],
  ['reasoning and the rest', ['reasoning', 'rest']],
  ['text and calls, without reasoning', ['content', 'tool_calls']],
  ['each call', ['reasoning', 'content', 'a', 'b']],
])('a reply that comes back in several messages is gone on from: %s', async (_, pieces) => {
  await using opened = await openReasoning((call) => ({
    ...thinking(call),
    tool_calls: ['a', 'b'].map((letter) => toolCall(`${letter}${call}`, '{ }')),
  }));
  const { client, requests, trajectory } = opened;
  const messages: OpenAI.ChatCompletionMessageParam[] = [user('a')];
  for (const call of [1, 2, 3]) {
    await client.chat.completions.create({ model: 'any', messages });
    const calls = ['a', 'b'].map((letter) => toolCall(`${letter}${call}`, '{}'));
    const sent: Record<string, object> = {
      // As the adapter of the Agents SDK for AI SDK models sends them.
      reasoning: { content: '', reasoning_content: `thought ${call}` },
      content: { content: `answer ${call}` },
      tool_calls: { content: null, tool_calls: calls },
      rest: { content: `answer ${call}`, tool_calls: calls },
      ...{ a: { tool_calls: calls.slice(0, 1) }, b: { tool_calls: calls.slice(1) } },
    };
    for (const piece of pieces) messages.push({ role: 'assistant', ...sent[piece] });
    for (const { id } of calls) messages.push({ role: 'tool', tool_call_id: id, content: 'done' });
  }
  expect(trajectory.histories).toHaveLength(1);
  expect(requests[2]?.messages.map(({ role }) => role).join()).toBe(
    'user,assistant,tool,tool,assistant,tool,tool',
  );
});

test('messages that are no parts of one reply stay as they are', async () => {
  await using opened = await openReasoning();
  const { client, requests, trajectory } = opened;
  const messages = [user('a')] as OpenAI.ChatCompletionMessageParam[];
  for (const call of [1, 2]) {
    await client.chat.completions.create({ model: 'any', messages });
    // The next reply continues from this one, without a message between them.
    messages.push(assistant(`answer ${call}`));
  }
  await client.chat.completions.create({ model: 'any', messages: [...messages, user('b')] });
  expect(requests[2]?.messages).toHaveLength(4);
  expect(trajectory.histories).toHaveLength(1);
});

test.each([
  ['items', { store: false }],
  ['encrypted reasoning alone', { store: false, include: ['reasoning.encrypted_content' as const] }],
  ['references to stored items', {}],
  ['no reasoning', { store: false }],
])('a responses client that sends back %s continues from the reply', async (what, fields) => {
  for (const stream of [false, true]) {
    await using opened = await openReasoning();
    const { client, requests, trajectory } = opened;
    const input: OpenAI.Responses.ResponseInput = [user('a')];
    const request = { model: 'any', input, ...fields };
    const response = stream
      ? await client.responses.stream(request).finalResponse()
      : await client.responses.create(request);
    expect(response.output.map(({ type }) => type)).toEqual(['reasoning', 'message']);
    for (const item of response.output) {
      if (what === 'references to stored items') input.push({ type: 'item_reference', id: item.id ?? '' });
      else if (item.type === 'reasoning') {
        if (what === 'items') input.push(item);
        if (what === 'encrypted reasoning alone')
          input.push({
            id: item.id,
            type: 'reasoning',
            summary: [],
            encrypted_content: item.encrypted_content,
          });
      } else if (item.type === 'message') input.push(item);
    }
    await client.responses.create({ ...request, input: [...input, user('b')] });
    expect(requests[1]?.messages[1]).toMatchObject({ reasoning: 'thought 1', token_ids: [1, 99] });
    expect(requests[1]?.messages).toHaveLength(3);
    expect(trajectory.histories).toHaveLength(1);
  }
});

test.each<[string, 'summarized' | 'omitted', (block: Anthropic.ContentBlock) => boolean]>([
  ['thoughts', 'summarized', () => true],
  ['thoughts of which it sees the signature alone', 'omitted', () => true],
  ['no thoughts', 'summarized', ({ type }) => type === 'text'],
])('a messages client that sends back %s continues from the reply', async (_, display, isKept) => {
  for (const stream of [false, true]) {
    await using opened = await openReasoning();
    const { anthropic, requests, trajectory } = opened;
    const body: Anthropic.MessageCreateParamsNonStreaming = {
      ...{ model: 'any', max_tokens: 2000, messages: [user('a')] },
      thinking: { type: 'enabled', budget_tokens: 1024, display },
    };
    const { content } = stream
      ? await anthropic.messages.stream(body).finalMessage()
      : await anthropic.messages.create(body);
    const thinking = display === 'omitted' ? '' : 'thought 1';
    expect(content).toMatchObject([
      { type: 'thinking', thinking, signature: expect.stringMatching(/./) },
      { type: 'text', text: 'answer 1' },
    ]);
    const reply = { role: 'assistant' as const, content: content.filter(isKept) };
    await anthropic.messages.create({ ...body, messages: [user('a'), reply, user('b')] });
    expect(requests[1]?.messages[1]).toMatchObject({ reasoning: 'thought 1', token_ids: [1, 99] });
    expect(trajectory.histories).toHaveLength(1);
    // A thought that says something else is an edit.
    const other = [{ type: 'thinking' as const, thinking: 'other', signature: '' }, ...content.slice(1)];
    await anthropic.messages.create({
      ...body,
      messages: [user('a'), { ...reply, content: other }, user('b')],
    });
    expect(requests[2]?.messages[1]).toMatchObject({ reasoning_content: 'other' });
    expect(requests[2]?.messages[1]).not.toHaveProperty('token_ids');
  }
});

test('events of a streamed message tell one block after the other', async () => {
  await using opened = await openReasoning();
  const types: string[] = [];
  const body = { model: 'any', max_tokens: 9, messages: [user('a')] };
  for await (const event of await opened.anthropic.messages.create({ ...body, stream: true })) {
    const delta = event.type === 'content_block_delta' ? [event.delta.type] : [];
    const index = 'index' in event ? [event.index] : [];
    types.push([event.type, ...index, ...delta].join(' '));
  }
  expect(types).toEqual([
    'message_start',
    ...['content_block_start 0', 'content_block_delta 0 thinking_delta'],
    ...['content_block_delta 0 signature_delta', 'content_block_stop 0'],
    ...['content_block_start 1', 'content_block_delta 1 text_delta', 'content_block_stop 1'],
    ...['message_delta', 'message_stop'],
  ]);
});

test('events of a streamed response are numbered and tell the whole of it', async () => {
  await using opened = await openReasoning();
  const types: string[] = [];
  let at = 0;
  let text = '';
  for await (const event of await opened.client.responses.create({
    model: 'any',
    input: 'a',
    stream: true,
  })) {
    expect(event.sequence_number).toBe(at++);
    types.push(event.type);
    if (event.type === 'response.output_text.delta') text += event.delta;
  }
  expect(text).toBe('answer 1');
  expect(types).toEqual([
    ...['response.created', 'response.in_progress'],
    ...['response.output_item.added', 'response.content_part.added', 'response.reasoning_text.delta'],
    ...['response.reasoning_text.done', 'response.content_part.done', 'response.output_item.done'],
    ...['response.output_item.added', 'response.content_part.added', 'response.output_text.delta'],
    ...['response.output_text.done', 'response.content_part.done', 'response.output_item.done'],
    'response.completed',
  ]);
});

test('a reply that its limit cut is incomplete, and says so', async () => {
  const create = async () => ({
    ...{ id: 'x', created: 0, model: name, object: 'chat.completion', prompt_token_ids: [1] },
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'cu' },
        finish_reason: 'length',
        token_ids: [2],
        logprobs: null,
      },
    ],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });
  const model = new ModelHandle({ name, completions: completionsOf(create) });
  const { baseUrl, apiKey } = await openRollout().endpoint(model);
  try {
    const client = new OpenAI({ baseURL: baseUrl, apiKey });
    expect(await client.responses.create({ model: 'any', input: 'a' })).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ type: 'message', status: 'incomplete' }],
      usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
    });
  } finally {
    await closeEndpoints();
  }
});

test('log-probabilities and ids are shown to those who ask for them alone', async () => {
  await using desk = await openDesk(() => ({ text: 'hi' }));
  const { baseUrl, apiKey } = await openRollout().endpoint(desk.model);
  const client = new OpenAI({ baseURL: baseUrl, apiKey });
  const request = { model: 'any', messages: [user('a')], logprobs: true, return_token_ids: true };
  const completion = await client.chat.completions.create(request);
  expect(completion.choices[0]?.logprobs?.content).toHaveLength(3);
  expect(completion).toMatchObject({
    choices: [{ token_ids: [104, 105, 1_000_000] }],
    prompt_token_ids: expect.any(Array),
  });
});
