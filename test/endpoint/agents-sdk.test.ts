import { Agent, OpenAIProvider, Runner, tool } from '@openai/agents';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { FakePolicy } from '../model/fake-service.ts';
import { expectExact, openDesk, openRollout, twoTurns } from './support.ts';

const order = tool({
  name: 'order',
  description: 'Look up an order',
  parameters: z.object({ order: z.number() }),
  execute: ({ order: number }) => `order ${number} is paid`,
});

const agent = new Agent({ name: 'desk', instructions: 'You help.', model: 'policy', tools: [order] });

/** Runs an agent as its users do: a provider of the endpoint's URL and key is all that is given to it. */
async function run(
  policy: FakePolicy,
  options: { useResponses: boolean; stream: boolean; agent?: typeof agent },
) {
  const desk = await openDesk(policy);
  const rollout = openRollout();
  const { baseUrl, apiKey } = await rollout.endpoint(desk.model);
  const { useResponses, stream } = options;
  const runner = new Runner({
    modelProvider: new OpenAIProvider({ apiKey, baseURL: baseUrl, useResponses }),
    tracingDisabled: true,
  });
  const asked = options.agent ?? agent;
  if (!stream) return { desk, rollout, output: (await runner.run(asked, 'order 12?')).finalOutput };
  const result = await runner.run(asked, 'order 12?', { stream: true });
  for await (const _ of result);
  await result.completed;
  return { desk, rollout, output: result.finalOutput };
}

test.each([
  { useResponses: true, stream: false },
  { useResponses: true, stream: true },
  { useResponses: false, stream: false },
  { useResponses: false, stream: true },
])('an Agents SDK agent with a tool is one history of what was sampled: %o', async (mode) => {
  const { desk, rollout, output } = await run(twoTurns, mode);
  await using _ = desk;
  expect(output).toBe('it is paid');
  expect(rollout.trajectory.histories).toHaveLength(1);
  expect(rollout.trajectory.choices).toHaveLength(2);
  expectExact(rollout.trajectory, desk.service.requests);
  expect(desk.service.requests[1]?.messages.at(-1)).toMatchObject({ content: 'order 12 is paid' });
});

test.each([false, true])(
  'a text before a call comes back with fields that the client adds, and is read (streamed: %s)',
  async (stream) => {
    const policy: FakePolicy = (request) => {
      const reply = twoTurns(request);
      return 'toolCalls' in reply ? { text: 'let me look', ...reply } : reply;
    };
    const { desk, rollout, output } = await run(policy, { useResponses: false, stream });
    await using _ = desk;
    expect(output).toBe('it is paid');
    expect(rollout.trajectory.histories).toHaveLength(1);
    expectExact(rollout.trajectory, desk.service.requests);
  },
);

test('several calls in one reply and a hand-off to another agent are recorded exactly', async () => {
  const clerk = new Agent({ name: 'clerk', instructions: 'You close.', model: 'policy', tools: [order] });
  const front = Agent.create({
    name: 'front',
    instructions: 'You route.',
    model: 'policy',
    handoffs: [clerk],
  });
  const policy: FakePolicy = ({ messages }) => {
    if (messages[0]?.content === 'You route.')
      return { toolCalls: [{ name: 'transfer_to_clerk', arguments: '{}' }] };
    if (messages.at(-1)?.role === 'tool' && messages.filter(({ role }) => role === 'tool').length > 1)
      return { text: 'closed' };
    return {
      text: 'let me look',
      toolCalls: [
        { name: 'order', arguments: '{"order": 1}' },
        { name: 'order', arguments: '{"order": 2}' },
      ],
    };
  };
  const { desk, rollout, output } = await run(policy, { useResponses: true, stream: false, agent: front });
  await using _ = desk;
  expect(output).toBe('closed');
  // Another system prompt is another conversation; what the clerk said twice is one.
  expect(rollout.trajectory.histories.map(({ choices }) => choices.length)).toEqual([1, 2]);
  expectExact(rollout.trajectory, desk.service.requests);
});
