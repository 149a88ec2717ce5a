import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Client, createClient } from '../../src/client/index.ts';

export interface DelayedService extends AsyncDisposable {
  baseUrl: string;
  connect(): Client;
  inHand(): Promise<number>;
}

/** `turns` is the length of a conversation: completions before the last one call the tool `look`. */
export async function startDelayedService(milliseconds: number, turns = 1): Promise<DelayedService> {
  const path = fileURLToPath(new URL('./delayed-service.ts', import.meta.url));
  const child = spawn(process.execPath, [path, String(milliseconds), String(turns)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const [port] = await once(createInterface(child.stdout), 'line');
  const baseUrl = `http://127.0.0.1:${port}`;
  return {
    baseUrl,
    connect: () => createClient({ baseUrl, apiKey: 'key' }),
    inHand: async () => Number(await (await fetch(baseUrl)).text()),
    [Symbol.asyncDispose]: async () => {
      child.kill();
      await once(child, 'exit');
    },
  };
}
