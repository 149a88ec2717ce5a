import Anthropic from '@anthropic-ai/sdk';
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
import { closeEndpoints, ModelHandle } from 'martingale';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { FakePolicy } from '../model/fake-service.ts';
import {
  completionsOf,
  expectExact,
  name,
  openDesk,
  openRollout,
  orderParameters,
  twoTurns,
} from './support.ts';

type Body = Anthropic.MessageCreateParamsNonStreaming;

const tool = {
  name: 'order',
  description: 'Look up an order',
  input_schema: { ...orderParameters, required: ['order'] },
};
const asked: Body = { model: 'claude', max_tokens: 100, messages: [{ role: 'user', content: 'a' }] };

function clientOf({ baseUrl, apiKey }: { baseUrl: string; apiKey: string }) {
  return new Anthropic({ baseURL: baseUrl, apiKey, authToken: null });
}

const send = (client: Anthropic, body: Body, stream: boolean) =>
  stream ? client.messages.stream(body).finalMessage() : client.messages.create(body);

/** What runs the calls of a reply says: each block is the result of a call. */
const resultsOf = ({ content }: Anthropic.Message, more: Partial<Anthropic.ToolResultBlockParam> = {}) =>
  content.flatMap((block) =>
    block.type === 'tool_use'
      ? [
          {
            type: 'tool_result' as const,
            tool_use_id: block.id,
            content: `paid ${JSON.stringify(block.input)}`,
            ...more,
          },
        ]
      : [],
  );

test.each([false, true])(
  'an agent on messages is recorded as one history of what was sampled (streamed: %s)',
  async (stream) => {
    await using desk = await openDesk(twoTurns);
    const { trajectory, endpoint, end } = openRollout();
    const client = clientOf(await endpoint(desk.model));
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'order 12?' }];
    const body = { ...asked, system: 'You help.', messages, tools: [tool] };
    const first = await send(client, body, stream);
    expect(first).toMatchObject({ model: name, role: 'assistant', type: 'message', stop_reason: 'tool_use' });
    messages.push({ role: 'assistant', content: first.content }, { role: 'user', content: resultsOf(first) });
    const second = await send(client, body, stream);
    end();
    expect(second).toMatchObject({
      stop_reason: 'end_turn',
      content: [{ type: 'text', text: 'it is paid' }],
    });
    expect(second.usage).toMatchObject({ output_tokens: 11, cache_read_input_tokens: 0 });
    expect(desk.service.requests[1]?.messages).toMatchObject([
      { role: 'system', content: 'You help.' },
      { role: 'user', content: 'order 12?' },
      { role: 'assistant', token_ids: trajectory.choices[0]?.token_ids },
      { role: 'tool', content: 'paid {"order":12}' },
    ]);
    expect(trajectory.histories).toHaveLength(1);
    expectExact(trajectory, desk.service.requests);
    expect(trajectory.choices[0]?.message.tool_calls?.[0]?.function.arguments).toBe('{ "order" :  12.0 }');
  },
);

test.each([false, true])(
  'several calls, blocks with cache hints, errors of tools and notes beside results go on in one history (streamed: %s)',
  async (stream) => {
    const policy: FakePolicy = ({ messages }) =>
      messages.at(-1)?.content === 'be brief'
        ? { text: 'paid' }
        : {
            text: 'look',
            toolCalls: [1, 2].map((order) => ({ name: 'order', arguments: `{"order":${order}}` })),
          };
    await using desk = await openDesk(policy);
    const { trajectory, endpoint } = openRollout();
    const client = clientOf(await endpoint(desk.model));
    const cache_control = { type: 'ephemeral' as const };
    const system = ['You help.', 'Politely.'].map((text) => ({ type: 'text' as const, text, cache_control }));
    const question = { type: 'text' as const, text: 'orders 1 and 2?' };
    const body = { ...asked, system, tools: [{ ...tool, cache_control }], metadata: { user_id: 'u' } };
    const first = await send(client, { ...body, messages: [{ role: 'user', content: [question] }] }, stream);
    expect(first.content.map(({ type }) => type)).toEqual(['text', 'tool_use', 'tool_use']);
    const [one, two] = resultsOf(first);
    if (!one || !two) throw new TypeError('there are no two calls');
    const results = [
      { ...one, content: [{ type: 'text' as const, text: 'no such order' }], is_error: true },
      two,
      { type: 'text' as const, text: 'be brief', cache_control },
    ];
    const messages: Anthropic.MessageParam[] = [
      // The hint moves, and a text is a text in either form.
      { role: 'user', content: 'orders 1 and 2?' },
      // A client may send each block in a message of its own.
      ...first.content.map((block) => ({ role: 'assistant' as const, content: [block] })),
      { role: 'user', content: results },
    ];
    expect(await send(client, { ...body, messages }, stream)).toMatchObject({ content: [{ text: 'paid' }] });
    expect(desk.service.requests[1]?.messages.slice(-3)).toMatchObject([
      { role: 'tool', tool_call_id: one.tool_use_id, content: 'Error: no such order' },
      { role: 'tool', tool_call_id: two.tool_use_id, content: 'paid {"order":2}' },
      { role: 'user', content: 'be brief' },
    ]);
    expect(desk.service.requests[0]).toMatchObject({
      user: 'u',
      messages: [{ content: 'You help.\n\nPolitely.' }, {}],
    });
    expect(trajectory.histories).toHaveLength(1);
    expectExact(trajectory, desk.service.requests);
  },
);

test.each([false, true])("the client's own loop over tools is one history (streamed: %s)", async (stream) => {
  await using desk = await openDesk(twoTurns);
  const { trajectory, endpoint } = openRollout();
  const client = clientOf(await endpoint(desk.model));
  const order = betaZodTool({
    ...{ name: 'order', description: 'Look up an order', inputSchema: z.object({ order: z.number() }) },
    run: (input) => `order ${input.order} is paid`,
  });
  const body = { ...asked, tools: [order] };
  const { content } = stream
    ? await client.beta.messages.toolRunner({ ...body, stream: true }).runUntilDone()
    : await client.beta.messages.toolRunner(body);
  expect(content).toMatchObject([{ text: 'it is paid' }]);
  // It asks for a thread first, which is refused, and goes on without one.
  expect(trajectory.observations.unansweredCalls).toEqual([]);
  expect(desk.service.requests[1]?.messages.at(-1)).toMatchObject({ content: 'order 12 is paid' });
  expect(trajectory.histories).toHaveLength(1);
  expectExact(trajectory, desk.service.requests);
});

test('the fields of a request reach the service', async () => {
  await using desk = await openDesk(twoTurns);
  const client = clientOf(await openRollout().endpoint(desk.model));
  const schema = { type: 'object', properties: {}, additionalProperties: false };
  await client.messages.create({
    ...{ ...asked, tools: [{ ...tool, type: 'custom', strict: true }], stop_sequences: ['\n'], top_k: 5 },
    ...{ temperature: 0.5, top_p: 0.9, service_tier: 'standard_only', cache_control: { type: 'ephemeral' } },
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
    thinking: { type: 'enabled', budget_tokens: 2048 },
    output_config: { effort: 'high', format: { type: 'json_schema', schema } },
  });
  expect(desk.service.requests[0]).toMatchObject({
    ...{ max_completion_tokens: 100, temperature: 0.5, top_p: 0.9, top_k: 5, stop: ['\n'] },
    ...{ tool_choice: 'required', parallel_tool_calls: false, reasoning_effort: 'medium' },
    tools: [{ type: 'function', function: { name: 'order', parameters: tool.input_schema, strict: true } }],
    response_format: { type: 'json_schema', json_schema: { schema } },
  });
  // As litellm sends the format.
  const older: object = { output_format: { type: 'json_schema', schema } };
  await client.messages.create({ ...asked, ...older });
  expect(desk.service.requests[1]?.response_format).toMatchObject({ json_schema: { schema } });
  const choices: [Anthropic.ToolChoice, unknown][] = [
    [{ type: 'auto' }, undefined],
    [{ type: 'none' }, 'none'],
    [
      { type: 'tool', name: 'order' },
      { type: 'function', function: { name: 'order' } },
    ],
  ];
  for (const [tool_choice, sent] of choices) {
    await client.messages.create({ ...asked, tools: [tool], tool_choice });
    expect(desk.service.requests.at(-1)?.tool_choice).toEqual(sent);
  }
  const thoughts: [Partial<Body>, unknown][] = [
    [{}, undefined],
    [{ thinking: { type: 'adaptive' }, output_config: { effort: 'high' } }, undefined],
    [{ thinking: { type: 'adaptive' }, output_config: { effort: 'low' } }, 'low'],
    [{ thinking: { type: 'enabled', budget_tokens: 1024 } }, 'low'],
    [{ thinking: { type: 'enabled', budget_tokens: 16_000 } }, 'high'],
    [{ thinking: { type: 'disabled' } }, 'none'],
  ];
  for (const [fields, sent] of thoughts) {
    await client.messages.create({ ...asked, ...fields });
    expect(desk.service.requests.at(-1)?.reasoning_effort).toBe(sent);
  }
});

test('tools that wait for a search are not in the prompt, and settings that keep every thought are taken', async () => {
  await using desk = await openDesk(twoTurns);
  const client = clientOf(await openRollout().endpoint(desk.model));
  await client.beta.messages.create({
    ...{ ...asked, tools: [tool, { ...tool, name: 'later', defer_loading: true }] },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
  });
  expect(desk.service.requests[0]?.tools?.map((sent) => sent.function.name)).toEqual(['order']);
});

test.each([false, true])('a reply says where and why it ended (streamed: %s)', async (stream) => {
  const replyOf = (fields: object) => ({
    ...{ index: 0, message: { role: 'assistant', content: 'so' }, finish_reason: 'stop', token_ids: [2, 3] },
    ...{ logprobs: null, ...fields },
  });
  const ends: [object, object][] = [
    [{ finish_reason: 'length' }, { stop_reason: 'max_tokens', stop_sequence: null }],
    [
      { stop_reason: null, stop_string: '\n' },
      { stop_reason: 'stop_sequence', stop_sequence: '\n' },
    ],
    [{ stop_reason: '\n' }, { stop_reason: 'stop_sequence', stop_sequence: '\n' }],
    [{ stop_reason: 7 }, { stop_reason: 'end_turn', stop_sequence: null }],
    [{ finish_reason: 'content_filter' }, { stop_reason: 'refusal' }],
  ];
  try {
    for (const [fields, end] of ends) {
      const { message, ...rest } = replyOf(fields);
      const head = { id: 'x', created: 0, model: name, prompt_token_ids: [1, 4, 6] };
      const usage = {
        ...{ prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
        prompt_tokens_details: { cached_tokens: 2 },
      };
      const whole = { ...head, object: 'chat.completion', choices: [{ message, ...rest }], usage };
      const chunks = async function* () {
        yield { ...head, object: 'chat.completion.chunk', choices: [{ delta: message, ...rest }], usage };
      };
      const create = async () => (stream ? chunks() : whole);
      const model = new ModelHandle({ name, completions: completionsOf(create) });
      const reply = await send(clientOf(await openRollout().endpoint(model)), asked, stream);
      expect(reply).toMatchObject({ ...end, content: [{ type: 'text', text: 'so' }] });
      expect(reply.usage).toMatchObject({ input_tokens: 1, cache_read_input_tokens: 2, output_tokens: 2 });
    }
  } finally {
    await closeEndpoints();
  }
});

test.each([false, true])(
  'arguments that are not an object are an input that a tool can refuse (streamed: %s)',
  async (stream) => {
    for (const written of ['{"order": 1', '[1]', '']) {
      await using desk = await openDesk(({ messages }) =>
        messages.length > 1 ? { text: 'sorry' } : { toolCalls: [{ name: 'order', arguments: written }] },
      );
      const { trajectory, endpoint } = openRollout();
      const client = clientOf(await endpoint(desk.model));
      const reply = await send(client, { ...asked, tools: [tool] }, stream);
      const input = written === '' ? {} : { INVALID_JSON: written };
      expect(reply.content).toMatchObject([{ type: 'tool_use', input }]);
      const messages: Anthropic.MessageParam[] = [
        ...asked.messages,
        { role: 'assistant', content: reply.content },
        { role: 'user', content: resultsOf(reply, { is_error: true, content: 'Error: not JSON' }) },
      ];
      await send(client, { ...asked, tools: [tool], messages }, stream);
      expect(desk.service.requests[1]?.messages.at(-1)).toMatchObject({ content: 'Error: not JSON' });
      expect(trajectory.histories).toHaveLength(1);
      expectExact(trajectory, desk.service.requests);
    }
  },
);

test('tokens are counted as the next call has them, and the count is no call of the rollout', async () => {
  await using desk = await openDesk(() => ({ text: 'yes' }));
  const { trajectory, endpoint } = openRollout({ limits: { turns: 2 } });
  const client = clientOf(await endpoint(desk.model));
  const first = await client.messages.create(asked);
  const messages: Anthropic.MessageParam[] = [
    ...asked.messages,
    { role: 'assistant', content: first.content },
    { role: 'user', content: 'sure?' },
  ];
  const { input_tokens } = await client.messages.countTokens({ model: 'claude', messages, tools: [tool] });
  const second = await client.messages.create({ ...asked, messages, tools: [tool] });
  expect(second.usage.input_tokens).toBe(input_tokens);
  const [, count, call] = desk.service.requests;
  expect(count).toMatchObject({ max_completion_tokens: 1, messages: call?.messages });
  expect(trajectory.choices).toHaveLength(2);
  expect(trajectory.histories).toHaveLength(1);
});

test('the key comes as x-api-key or as a bearer, to the address with /v1 or without', async () => {
  await using desk = await openDesk(twoTurns);
  const { baseUrl, apiKey } = await openRollout().endpoint(desk.model);
  const root = baseUrl.replace('/v1', '');
  for (const options of [
    { baseURL: baseUrl, apiKey, authToken: null },
    { baseURL: root, apiKey, authToken: null },
    { baseURL: root, apiKey: null, authToken: apiKey },
  ])
    expect((await new Anthropic(options).messages.create(asked)).model).toBe(name);
  // As of a client that sends a token of the environment beside the key of its program.
  const both = { 'x-api-key': apiKey, authorization: 'Bearer sk-ant' };
  const answer = await fetch(`${baseUrl}/messages`, {
    method: 'POST',
    headers: both,
    body: JSON.stringify(asked),
  });
  expect(answer.status).toBe(200);
  const foreign = new Anthropic({ baseURL: root, apiKey: 'sk-ant', authToken: null, maxRetries: 0 });
  await expect(foreign.messages.create(asked)).rejects.toBeInstanceOf(Anthropic.AuthenticationError);
});
