import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { LargeBody } from './large-bodies.ts';
import type { Figures } from './large-service.ts';

export interface ChildService {
  url: string;
  /** The figures of the service since the last call. */
  figures(): Promise<Figures>;
  /** Resolves when the process has ended. */
  stop(): Promise<void>;
}

const program = fileURLToPath(new URL('large-service.ts', import.meta.url));

/** Starts a service in its own process, with Node's heap limit if one is passed. */
export async function startChild(options: {
  dataFolder: string;
  contextLength: number;
  heapMiB?: number;
}): Promise<ChildService> {
  const limit =
    options.heapMiB === undefined
      ? []
      : [`--max-old-space-size=${options.heapMiB}`, '--max-semi-space-size=8'];
  const child = spawn(
    process.execPath,
    [...limit, program, options.dataFolder, String(options.contextLength)],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  const ended = once(child, 'exit');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (word: string): Promise<string> => {
    for (let line = await lines.next(); !line.done; line = await lines.next())
      if (line.value.startsWith(`${word} `)) return line.value.slice(word.length + 1);
    throw new Error('the service has ended');
  };
  return {
    url: await next('url'),
    figures: async () => {
      child.stdin.write('\n');
      return JSON.parse(await next('figures'));
    },
    stop: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** Sends a body piece by piece, without holding it in memory. */
export async function send(
  url: string,
  { bytes, pieces }: LargeBody,
  headers: Record<string, string> = {},
): Promise<{ status: number; body: unknown }> {
  const posting = request(url, {
    method: 'POST',
    headers: { authorization: 'Bearer test-key', 'content-length': bytes, ...headers },
  });
  const answered = once(posting, 'response');
  Readable.from(pieces()).pipe(posting);
  const [response] = await answered;
  let text = '';
  for await (const chunk of response) text += chunk;
  return { status: response.statusCode, body: JSON.parse(text) };
}

export async function ask(
  url: string,
  path: string,
  body?: object,
): Promise<{ status: number; body: unknown }> {
  const response = await fetch(url + path, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: 'Bearer test-key' },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? null : JSON.parse(text) };
}
