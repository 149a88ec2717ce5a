import { spawn } from 'node:child_process';
import { test } from 'vitest';
import { expectExact, openDesk, openRollout } from './support.ts';

test('x', { timeout: 120000 }, async () => {
  await using desk = await openDesk(({ messages }) =>
    messages.some((m) => m.role === 'tool')
      ? { text: 'it is paid' }
      : { toolCalls: [{ name: 'mcp__desk__order', arguments: '{ "order" :  12.0 }' }] },
  );
  const { trajectory, endpoint } = openRollout();
  const { baseUrl, apiKey } = await endpoint(desk.model);
  const child = spawn('/work/main/node_modules/.bin/tsx', ['/tmp/wt/messages-deps/claude.mts'], {
    cwd: '/tmp/wt/messages-deps',
    env: { PATH: process.env.PATH!, TARGET: baseUrl, KEY: apiKey, NOBETA: process.env.NOBETA ?? '' },
    stdio: 'inherit',
  });
  await new Promise((r) => child.on('exit', r));
  console.log('HISTORIES', trajectory.histories.length, trajectory.choices.length);
  console.log(
    JSON.stringify(
      desk.service.requests.map((r) =>
        r.messages.map((m) => [m.role, String(m.content).slice(0, 300), 'token_ids' in m]),
      ),
    ),
  );
  expectExact(trajectory, desk.service.requests);
});
