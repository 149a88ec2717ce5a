import { fileURLToPath } from 'node:url';
import { createMCPClient } from '@ai-sdk/mcp';
import { StdioMCPTransport } from '@ai-sdk/mcp/mcp-stdio';
import { defineEnvironment } from 'martingale';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { runRollout } from '../../src/rollout/run-rollout.ts';
import type { FakePolicy } from '../model/fake-service.ts';
import { openPolicy, outcomeOf, rolloutOptions } from './run-once.ts';

const server = fileURLToPath(new URL('./rooms-mcp-server.ts', import.meta.url));
const closed: string[] = [];

/** Each rollout has its own server process. */
const rooms = defineEnvironment({
  name: 'rooms',
  scenario: z.object({ treasure: z.string() }),
  setup: async ({ scenario }) => {
    const args = [server, scenario.treasure];
    return await createMCPClient({ transport: new StdioMCPTransport({ command: process.execPath, args }) });
  },
  prompt: () => 'Find the treasure.',
  tools: ({ state }) => state.tools(),
  cleanup: async ({ state, scenario }) => {
    await state.close();
    closed.push(scenario.treasure);
  },
  rewards: { found: ({ outcome }) => Number(outcome.text.startsWith('the treasure')) },
});

const looker: FakePolicy = ({ messages }) => {
  const order = ['hall', 'cellar', 'attic'];
  const seen = messages.filter(({ role }) => role === 'tool');
  const last = String(seen.at(-1)?.content ?? '');
  const room = order[seen.length];
  if (last.startsWith('the treasure') || room === undefined) return { text: last };
  return { toolCalls: [{ name: 'look', arguments: JSON.stringify({ room }) }] };
};

test('the tools of an MCP server work in an environment, with a server for each rollout', async () => {
  await using service = await openPolicy(looker);
  const [attic, hall] = await Promise.all(
    ['attic', 'hall'].map((treasure) => runRollout(rolloutOptions(rooms, { treasure }, service.model))),
  );
  expect(attic && outcomeOf(attic)).toMatchObject({ text: 'the treasure, after 2 looks', turns: 4 });
  expect(hall && outcomeOf(hall)).toMatchObject({ text: 'the treasure, after 1 looks', turns: 2 });
  expect([attic?.trajectory.reward, hall?.trajectory.reward]).toEqual([1, 1]);
  expect(closed.toSorted()).toEqual(['attic', 'hall']);
  const results = service.requests.flatMap(({ messages }) => messages.filter(({ role }) => role === 'tool'));
  expect(results.map(({ content }) => content)).toContain('the cellar is locked');
  expect(service.requests[0]?.tools).toMatchObject([
    { type: 'function', function: { name: 'look', description: 'Looks into a room.' } },
  ]);
});

test('a server that does not start fails `setup`', async () => {
  await using service = await openPolicy(looker);
  const broken = defineEnvironment({
    name: 'rooms',
    scenario: z.object({}),
    setup: async () => {
      const transport = new StdioMCPTransport({
        command: process.execPath,
        args: ['--eval', 'process.exit(3)'],
      });
      return await createMCPClient({ transport });
    },
    prompt: () => 'Find the treasure.',
    tools: ({ state }) => state.tools(),
    cleanup: ({ state }) => state.close(),
    rewards: { one: () => 1 },
  });
  const ended = await runRollout({ ...rolloutOptions(broken, {}, service.model), timeoutMs: 10_000 });
  expect(ended).toMatchObject({ status: 'failed', failure: { code: 'setup_failed' } });
});
