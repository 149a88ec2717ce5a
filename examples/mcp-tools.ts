// The tools of an MCP server as an environment's tools. The server is this file, started with `lamp`. If tools have a
// state, open a server for each rollout instead: in `setup`, and close it in `cleanup`.
// Start `MARTINGALE_API_KEY=mine npm run martingale -- serve`, then run: npx tsx examples/mcp-tools.ts
import { createMCPClient } from '@ai-sdk/mcp';
import { StdioMCPTransport } from '@ai-sdk/mcp/mcp-stdio';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { defineEnvironment, train } from 'martingale';
import { z } from 'zod';

const [steps = '30', runDirectory] = process.argv.slice(2);
if (steps === 'lamp') await serveLamp();
else await trainLamp();

async function serveLamp() {
  const server = new McpServer({ name: 'lamp', version: '1.0.0' });
  server.registerTool('lamp', { inputSchema: { state: z.enum(['on', 'off']) } }, async ({ state }) => ({
    content: [{ type: 'text', text: `the lamp is ${state}` }],
  }));
  await server.connect(new StdioServerTransport());
}

async function trainLamp() {
  const transport = new StdioMCPTransport({
    command: process.execPath,
    args: [...process.execArgv, import.meta.filename, 'lamp'],
  });
  const server = await createMCPClient({ transport });
  const lamp = defineEnvironment({
    name: 'mcp-lamp',
    scenario: z.object({ wish: z.enum(['light', 'dark']) }),
    setup: () => ({ answer: '' }),
    prompt: ({ scenario }) => `make it ${scenario.wish}`,
    tools: await server.tools(),
    settings: { toolChoice: 'required' },
    stop: ({ state, reply }) => {
      state.answer = JSON.stringify(reply.toolCalls[0]?.output);
      return 'switched';
    },
    rewards: {
      success: ({ scenario, state }) =>
        Number(state.answer.includes(scenario.wish === 'light' ? 'is on' : 'is off')),
    },
  });
  try {
    await train({
      environment: lamp,
      scenarios: [{ wish: 'light' }, { wish: 'dark' }],
      baseUrl: process.env.MARTINGALE_BASE_URL ?? 'http://127.0.0.1:8000',
      apiKey: process.env.MARTINGALE_API_KEY ?? 'mine',
      model: { project: 'examples', name: 'mcp-lamp', baseModel: 'martingale-tiny' },
      steps: Number(steps),
      groupsPerStep: 4,
      rolloutsPerGroup: 8,
      runDirectory,
      onEvent: (event) => event.type === 'step' && console.log(event.step, event.reward.toFixed(2)),
    });
  } finally {
    await server.close();
  }
}
