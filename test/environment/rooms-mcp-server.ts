// A server of the Model Context Protocol over stdio: one treasure, in the room that the first argument names.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';

const treasure = process.argv[2];
let looks = 0;

const server = new McpServer({ name: 'rooms', version: '1.0.0' });
server.registerTool(
  'look',
  { description: 'Looks into a room.', inputSchema: { room: z.string() } },
  async ({ room }) => {
    if (room === 'cellar') throw new Error('the cellar is locked');
    looks++;
    const text = room === treasure ? `the treasure, after ${looks} looks` : 'nothing';
    return { content: [{ type: 'text', text }] };
  },
);
await server.connect(new StdioServerTransport());
