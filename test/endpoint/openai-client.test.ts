import OpenAI from 'openai';
import type { ChatCompletionMessageParam } from 'openai/resources';
import type { ResponseInput } from 'openai/resources/responses/responses';
import { expect, test } from 'vitest';
import { expectExact, name, openDesk, openRollout, orderParameters, twoTurns } from './support.ts';

const chatTool = {
  type: 'function',
  function: { name: 'order', description: 'Look up an order', parameters: orderParameters },
} as const;
const responseTool = {
  type: 'function',
  name: 'order',
  description: 'Look up an order',
  parameters: orderParameters,
  strict: true,
} as const;

/** Arguments as an agent has them after it has read and written them. */
const rewritten = (json: string) => JSON.stringify(JSON.parse(json));

async function openClient(model: Awaited<ReturnType<typeof openDesk>>['model']) {
  const rollout = openRollout();
  const { baseUrl, apiKey } = await rollout.endpoint(model);
  return { ...rollout, client: new OpenAI({ baseURL: baseUrl, apiKey }) };
}

test('an agent on chat completions is recorded as one history of what was sampled', async () => {
  await using desk = await openDesk(twoTurns);
  const { client, trajectory, end } = await openClient(desk.model);
  const messages: ChatCompletionMessageParam[] = [
    { role: 'system', content: 'You help.' },
    { role: 'user', content: 'order 12?' },
  ];
  for (let turn = 0; turn < 2; turn++) {
    const completion = await client.chat.completions.create({ model: 'gpt-5', messages, tools: [chatTool] });
    expect(completion.model).toBe(name);
    const { message } = completion.choices[0] ?? {};
    expect(completion.choices[0]).toMatchObject({ logprobs: null });
    expect(completion.choices[0]).not.toHaveProperty('token_ids');
    expect(completion).not.toHaveProperty('prompt_token_ids');
    if (!message) throw new TypeError('no message');
    for (const call of message.tool_calls ?? [])
      if (call.type === 'function') call.function.arguments = rewritten(call.function.arguments);
    messages.push(message);
    for (const call of message.tool_calls ?? [])
      messages.push({ role: 'tool', tool_call_id: call.id, content: 'paid' });
  }
  end();
  expect(messages.at(-1)).toMatchObject({ content: 'it is paid' });
  expect(trajectory.histories).toHaveLength(1);
  expectExact(trajectory, desk.service.requests);
  expect(trajectory.choices[0]?.message.tool_calls?.[0]?.function.arguments).toBe('{ "order" :  12.0 }');
});

test('a streamed chat agent is recorded as one history of what was sampled', async () => {
  await using desk = await openDesk(twoTurns);
  const { client, trajectory } = await openClient(desk.model);
  const messages: ChatCompletionMessageParam[] = [{ role: 'user', content: 'order 12?' }];
  for (let turn = 0; turn < 2; turn++) {
    const stream = client.chat.completions.stream({
      ...{ model: 'gpt-5', messages, tools: [chatTool] },
      stream_options: { include_usage: true },
    });
    const completion = await stream.finalChatCompletion();
    const { message } = completion.choices[0] ?? {};
    if (!message) throw new TypeError('no message');
    expect(completion.usage?.completion_tokens).toBeGreaterThan(0);
    for (const call of message.tool_calls ?? [])
      if (call.type === 'function') call.function.arguments = rewritten(call.function.arguments);
    messages.push(message);
    for (const call of message.tool_calls ?? [])
      messages.push({ role: 'tool', tool_call_id: call.id, content: 'paid' });
  }
  expect(messages.at(-1)).toMatchObject({ content: 'it is paid' });
  expect(trajectory.histories).toHaveLength(1);
  expectExact(trajectory, desk.service.requests);
});

test('tools that are allowed alone, and how much is to be thought, reach the service in both protocols', async () => {
  await using desk = await openDesk(twoTurns);
  const { client } = await openClient(desk.model);
  const called = { type: 'function', function: { name: 'order' } };
  await client.chat.completions.create({
    ...{ model: 'any', messages: [{ role: 'user', content: 'a' }], tools: [chatTool] },
    tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [called] } },
    reasoning_effort: 'minimal',
  });
  await client.responses.create({
    ...{ model: 'any', input: 'a', tools: [responseTool], reasoning: { effort: 'minimal' } },
    tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'order' }] },
  });
  const asked = {
    tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [called] } },
    reasoning_effort: 'minimal',
  };
  expect(desk.service.requests).toMatchObject([asked, asked]);
});

test.each([false, true])(
  'an agent on responses that sends items back is one history (streamed: %s)',
  async (stream) => {
    await using desk = await openDesk(twoTurns);
    const { client, trajectory } = await openClient(desk.model);
    const input: ResponseInput = [{ role: 'user', content: 'order 12?' }];
    const request = { model: 'gpt-5', instructions: 'You help.', input, tools: [responseTool], store: false };
    for (let turn = 0; turn < 2; turn++) {
      const response = stream
        ? await client.responses.stream(request).finalResponse()
        : await client.responses.create(request);
      expect(response).toMatchObject({ model: name, status: 'completed', object: 'response' });
      for (const item of response.output) {
        if (item.type === 'function_call') {
          input.push({ ...item, arguments: rewritten(item.arguments) });
          input.push({ type: 'function_call_output', call_id: item.call_id, output: 'paid' });
        } else if (item.type === 'message') input.push(item);
      }
      if (turn === 1) expect(response.output_text).toBe('it is paid');
    }
    expect(trajectory.histories).toHaveLength(1);
    expectExact(trajectory, desk.service.requests);
    expect(desk.service.requests[0]?.messages[0]).toEqual({ role: 'system', content: 'You help.' });
  },
);

test.each([false, true])(
  'an agent on responses that names the response before is one history (streamed: %s)',
  async (stream) => {
    await using desk = await openDesk(twoTurns);
    const { client, trajectory } = await openClient(desk.model);
    const shared = { model: 'gpt-5', instructions: 'You help.', tools: [responseTool] };
    const ask = (request: { input: ResponseInput; previous_response_id?: string }) =>
      stream
        ? client.responses.stream({ ...shared, ...request }).finalResponse()
        : client.responses.create({ ...shared, ...request });
    const first = await ask({ input: [{ role: 'user', content: 'order 12?' }] });
    const [call] = first.output;
    if (call?.type !== 'function_call') throw new TypeError('no call');
    const second = await ask({
      previous_response_id: first.id,
      input: [{ type: 'function_call_output', call_id: call.call_id, output: 'paid' }],
    });
    expect(second.output_text).toBe('it is paid');
    const third = await ask({ previous_response_id: second.id, input: [{ role: 'user', content: 'sure?' }] });
    expect(third.previous_response_id).toBe(second.id);
    expect(trajectory.histories).toHaveLength(1);
    expectExact(trajectory, desk.service.requests);
  },
);

test('structured text is requested as a schema', async () => {
  await using desk = await openDesk(() => ({ text: '{"verdict":"done"}' }));
  const { client } = await openClient(desk.model);
  const schema = { type: 'object', properties: { verdict: { type: 'string' } }, required: ['verdict'] };
  const response = await client.responses.parse({
    model: 'gpt-5',
    input: 'done?',
    text: { format: { type: 'json_schema', name: 'verdict', schema, strict: true } },
  });
  expect(response.output_text).toBe('{"verdict":"done"}');
  await client.chat.completions.create({
    model: 'gpt-5',
    messages: [{ role: 'user', content: 'done?' }],
    response_format: { type: 'json_schema', json_schema: { name: 'verdict', schema, strict: true } },
  });
  for (const request of desk.service.requests)
    expect(request.response_format).toEqual({
      type: 'json_schema',
      json_schema: { name: 'verdict', schema, strict: true },
    });
});

test('the model is listed under its pinned name, and any name is answered for', async () => {
  await using desk = await openDesk(twoTurns);
  const { client } = await openClient(desk.model);
  const { data } = await client.models.list();
  expect(data.map(({ id }) => id)).toEqual([name]);
  expect((await client.models.retrieve('gpt-5')).id).toBe(name);
});
