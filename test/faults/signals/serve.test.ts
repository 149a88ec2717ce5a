import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { sharedFolder } from '../../support/files.ts';
import { startProgram } from './program.ts';

const apiKey = 'signals';
const headers = { authorization: `Bearer ${apiKey}` };
const folder = sharedFolder();

async function serve(flags: readonly string[] = [], execArgv: readonly string[] = []) {
  const program = startProgram({
    file: 'src/cli/main.ts',
    flags: ['serve', '--port', '0', '--data', join(folder, 'data'), '--threads', '1', ...flags],
    execArgv,
    env: { MARTINGALE_API_KEY: apiKey },
  });
  const text = await program.said(/Ctrl-C/);
  return { ...program, url: /http:\/\/\S+?(?=,)/.exec(text)?.[0] ?? '' };
}

const chat = (url: string, fields: object) =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'martingale-tiny',
      messages: [{ role: 'user', content: 'Count.' }],
      ...fields,
    }),
  });

/** Repeats a signal until the program has ended; those of the first half second count as one. */
async function insist({ child, ended }: Awaited<ReturnType<typeof serve>>, signal: NodeJS.Signals) {
  const again = setInterval(() => child.kill(signal), 50);
  const end = await ended;
  clearInterval(again);
  return end;
}

const stuck = ['--import', fileURLToPath(new URL('stuck-worker.ts', import.meta.url))];

// On Windows, no process can send these to another.
describe.skipIf(process.platform === 'win32')('martingale serve', () => {
  it('continues when nobody reads its output, and ends within its time while clients stream and send', {
    tags: ['long'],
  }, async () => {
    const service = await serve(['--stop-within', '20', '--log', 'all']);
    service.child.stdout.destroy();
    service.child.stderr.destroy();
    expect((await fetch(`${service.url}/v1/models`, { headers })).status).toBe(200);
    const streamed = await chat(service.url, { stream: true, max_tokens: 400, ignore_eos: true });
    const reader = streamed.body?.getReader();
    expect(streamed.status).toBe(200);
    await reader?.read();
    const half = connect(Number(new URL(service.url).port), '127.0.0.1');
    const cut = new Promise((resolve) => half.on('error', () => undefined).on('close', resolve));
    half.write(`POST /v1/preview/uploads HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${apiKey}\r\n`);
    half.write('content-type: application/jsonl\r\ncontent-length: 1000\r\nexpect: 100-continue\r\n\r\n{');
    // The service is handling it.
    await once(half, 'data');
    service.child.kill('SIGTERM');
    for (let isOpen = true; isOpen; )
      isOpen =
        (await reader?.read().then(
          ({ done }) => !done,
          () => false,
        )) ?? false;
    await cut;
    expect(await service.ended).toMatchObject({ code: 0, signal: null });
  });

  for (const { signal, code, ...options } of [
    { signal: 'SIGINT', code: 130, tags: ['long'] },
    { signal: 'SIGTERM', code: 143 },
  ] satisfies { signal: NodeJS.Signals; code: number; tags?: string[] }[])
    it(`exits at its limit if its engine does not stop: ${signal}, status ${code}`, options, async () => {
      const service = await serve(['--stop-within', '1'], stuck);
      expect((await chat(service.url, { max_tokens: 1 })).status).toBe(200);
      service.child.kill(signal);
      const ended = await service.ended;
      expect(ended).toMatchObject({ code, signal: null });
      expect(ended.stderr).toContain('Stopping within 1 s. Running jobs continue at the next start.');
      expect(ended.stderr).toContain(
        'Some work did not end within 1 s: the next start continues from the data on disk.',
      );
    });

  it('exits at once at the second signal', { tags: ['long'] }, async () => {
    const service = await serve(['--stop-within', '600'], stuck);
    expect((await chat(service.url, { max_tokens: 1 })).status).toBe(200);
    service.child.kill('SIGTERM');
    expect(await insist(service, 'SIGTERM')).toMatchObject({ code: 143, signal: null });
  });
});
