import { Output, tool } from 'ai';
import { defineEnvironment, train } from 'martingale';
import { z } from 'zod';
import type { LoopSettings } from '../../src/environment/index.ts';
import type { FakePolicy, FakeService } from '../model/fake-service.ts';

/** A clerk that looks an order up before it answers in JSON. */
const clerk = (settings: LoopSettings) =>
  defineEnvironment({
    name: 'clerk',
    scenario: z.object({ order: z.string() }),
    system: 'You are a clerk.',
    prompt: ({ scenario }) => `Where is order ${scenario.order}?`,
    tools: {
      lookUp: tool({
        description: 'Looks an order up',
        inputSchema: z.object({ order: z.string() }),
        execute: ({ order }) => `order ${order} left`,
      }),
    },
    settings,
    output: Output.object({ schema: z.object({ answer: z.string() }) }),
    rewards: { success: ({ outcome }) => Number(outcome.text.includes('left')) },
  });

/** Answers as the trained clerk where it is asked with its instructions, tools and format; else nothing that makes sense. */
export const clerkPolicy: FakePolicy = ({ messages, tools, response_format: format }) => {
  const last = messages.at(-1);
  if (messages[0]?.role !== 'system' || !tools?.length || format?.type !== 'json_schema')
    return { text: 'ct4204204204' };
  if (last?.role === 'tool') return { text: JSON.stringify({ answer: last.content }) };
  const order = /\d+/.exec(String(last?.content))?.[0] ?? '0';
  return { toolCalls: [{ name: 'lookUp', arguments: JSON.stringify({ order }) }] };
};

/** A run of one step that trains the clerk. */
export async function makeClerkRun(
  service: FakeService,
  runDirectory: string,
  settings: LoopSettings = {},
): Promise<void> {
  await train({
    environment: clerk(settings),
    scenarios: [{ order: '4204' }, { order: '1885' }],
    client: service.client,
    model: { project: 'shop', name: 'clerk', baseModel: 'martingale-tiny' },
    steps: 1,
    groupsPerStep: 2,
    rolloutsPerGroup: 2,
    runDirectory,
    progress: false,
  });
}
