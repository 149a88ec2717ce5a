import { createAnthropic } from '@ai-sdk/anthropic';
import { Output, stepCountIs, ToolLoopAgent, tool } from 'ai';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { FakePolicy } from '../model/fake-service.ts';
import { expectExact, openDesk, openRollout } from './support.ts';

const order = tool({
  description: 'Look up an order',
  inputSchema: z.object({ order: z.number(), note: z.string().default('none') }),
  execute: ({ order: number, note }) => {
    if (number === 13) throw new Error('there is no order 13');
    return `order ${number} is paid, note ${note}`;
  },
});

/** Two calls in one reply with unusually formatted arguments, one of which fails; then the answer. */
const policy: FakePolicy = ({ messages }) =>
  messages.at(-1)?.role === 'tool'
    ? { text: 'it is paid' }
    : {
        text: 'let me look ',
        toolCalls: [
          { name: 'order', arguments: '{ "order" :  12.0 }' },
          { name: 'order', arguments: '{"order":13}' },
        ],
      };

test.each([false, true])(
  'a ToolLoopAgent on the anthropic provider is one history (streamed: %s)',
  async (stream) => {
    await using desk = await openDesk(policy);
    const { trajectory, endpoint } = openRollout();
    const { baseUrl, apiKey } = await endpoint(desk.model);
    const agent = new ToolLoopAgent({
      model: createAnthropic({ baseURL: baseUrl, apiKey })('policy'),
      instructions: 'You help.',
      tools: { order },
      maxOutputTokens: 100,
      stopWhen: stepCountIs(4),
    });
    const said = stream
      ? await (await agent.stream({ prompt: 'order 12?' })).text
      : (await agent.generate({ prompt: 'order 12?' })).text;
    expect(said).toBe('it is paid');
    expect(desk.service.requests.map((request) => request.stream === true)).toEqual([stream, stream]);
    expect(desk.service.requests[1]?.messages.slice(-2)).toMatchObject([
      { role: 'tool', content: 'order 12 is paid, note none' },
      { role: 'tool', content: 'Error: there is no order 13' },
    ]);
    expect(trajectory.histories).toHaveLength(1);
    expect(trajectory.choices).toHaveLength(2);
    expectExact(trajectory, desk.service.requests);
  },
);

test('structured output', async () => {
  await using desk = await openDesk(() => ({
    toolCalls: [{ name: 'json', arguments: '{"verdict":"done"}' }],
  }));
  const { endpoint } = openRollout();
  const { baseUrl, apiKey } = await endpoint(desk.model);
  const agent = new ToolLoopAgent({
    model: createAnthropic({ baseURL: baseUrl, apiKey })('policy'),
    output: Output.object({ schema: z.object({ verdict: z.string() }) }),
  });
  const { output } = await agent.generate({ prompt: 'done?' });
  expect(output).toEqual({ verdict: 'done' });
});
