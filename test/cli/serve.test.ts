import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { welcome } from '../../src/cli/serve.ts';
import { isLocked } from '../../src/util/file-lock.ts';
import { generateCheckpoint } from '../engines/embedded/checkpoint/generated.ts';
import { commit, hubServer } from '../engines/embedded/checkpoint/hub-server.ts';
import { command } from '../support/command.ts';
import { sharedFolder } from '../support/files.ts';
import { fromSource, outcomeOf, root } from '../support/programs.ts';

const data = sharedFolder();
let running: ChildProcess | undefined;

/** `martingale serve`, once it reports that it is ready. */
async function serve(
  apiKey: string,
  ...flags: string[]
): Promise<{ process: ChildProcess; text: string; url: string }> {
  const child = spawn(
    process.execPath,
    [...fromSource, 'src/cli/main.ts', 'serve', '--port', '0', '--data', data, '--threads', '1', ...flags],
    { cwd: root, env: { ...process.env, MARTINGALE_API_KEY: apiKey }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  running = child;
  let text = '';
  for await (const chunk of child.stdout) {
    text += chunk;
    if (text.includes('Ctrl-C')) break;
  }
  return { process: child, text, url: /http:\/\/\S+?(?=,)/.exec(text)?.[0] ?? '' };
}

const models = (url: string, key: string) =>
  fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });

afterAll(async () => {
  running?.kill('SIGKILL');
});

describe('martingale serve', () => {
  it('creates a key, serves with it, and exits cleanly at the first interrupt', async () => {
    const service = await serve('');
    const key = /key: (\S+)/.exec(service.text)?.[1] ?? '';
    const answer = await models(service.url, key);
    expect(answer.status).toBe(200);
    expect(JSON.stringify(await answer.json())).toContain('martingale-tiny');
    expect((await models(service.url, 'another')).status).toBe(401);

    service.process.kill('SIGINT');
    expect(await once(service.process, 'exit')).toEqual([0, null]);
  });

  it('serves a checkpoint, and says what it found in its folder', async () => {
    const folder = await generateCheckpoint(data, 'qwen3');
    const flags = ['--checkpoint', folder, '--lora-rank', '4', '--context', '256', '--reasoning', 'none'];
    const service = await serve('mine', ...flags);
    expect(service.text).toMatch(
      /base model qwen3-generated: 0\.0 million parameters, 256 tokens of context, its own template, tool calls <tool_call>, no reasoning/,
    );
    expect(JSON.stringify(await (await models(service.url, 'mine')).json())).toContain('qwen3-generated');
    service.process.kill('SIGINT');
    expect(await once(service.process, 'exit')).toEqual([0, null]);
  });

  it('ends at once when it is interrupted while it fetches a checkpoint', async () => {
    const server = await hubServer(new Map([['config.json', Buffer.alloc(1000)]]), { name: 'acme/slow' });
    server.cuts.push(-1);
    const flags = ['--port', '0', '--data', join(data, 'never'), '--checkpoint', 'hf:acme/slow'];
    const cache = join(data, 'cache');
    const child = spawn(process.execPath, [...fromSource, 'src/cli/main.ts', 'serve', ...flags], {
      cwd: root,
      env: { ...process.env, HF_ENDPOINT: server.url, XDG_CACHE_HOME: cache },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    await expect.poll(() => server.sent, { timeout: 60_000 }).toHaveLength(1);
    child.kill('SIGINT');
    expect(await outcomeOf(child)).toMatchObject({
      code: 0,
      output: '',
      errors: expect.stringMatching(/^(?!.*Error).*Stopping within 10 s\./s),
    });
    expect(await readdir(data)).not.toContain('never');
    const lock = join(cache, 'martingale/checkpoints/acme--slow', `${commit}.lock`);
    expect(isLocked(lock)).toBe(false);
  });

  it.each([
    [['--checkpoint', 'nowhere'], /nowhere.*config\.json does not exist/s],
    [['--checkpoint', 'hf:qwen'], /hf:qwen\. Pass hf:owner\/name/],
    [['--train', 'some'], /--train.*Allowed choices are lora, all/],
    [['--lora-alpha', '0'], /--lora-alpha.*number above 0/],
    [['--training-memory', '0'], /--training-memory.*number above 0/],
    [['--lora-rank', 'x'], /--lora-rank.*whole number/],
    [
      ['--tool-calls', 'xml'],
      /--tool-calls.*hermes, named, lfm2, mistral, ministral, deepseek, deepseek-v3.1, qwen3-coder, llama, json, none/,
    ],
    [['--device', 'cuda'], /--device.*cpu, webgpu/],
  ])('refuses the flags %j by name', async (flags, message) => {
    const { stderr, code } = await command(['serve', '--port', '0', '--data', data, ...flags]);
    expect(stderr).toMatch(message);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(code).toBe(1);
  });

  it.skipIf(process.platform !== 'linux')('says what is missing when there is no graphics card', async () => {
    const folder = await generateCheckpoint(data, 'qwen3');
    const flags = ['--port', '0', '--data', data, '--checkpoint', folder, '--device', 'webgpu'];
    const child = spawn(process.execPath, [...fromSource, 'src/cli/main.ts', 'serve', ...flags], {
      cwd: root,
      env: { ...process.env, VK_ICD_FILENAMES: '/nowhere.json', VK_DRIVER_FILES: '/nowhere.json' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const exited = once(child, 'exit');
    let text = '';
    for await (const chunk of child.stderr) text += chunk;
    expect(text).toMatch(/device webgpu cannot be used: .*Vulkan \(Linux\).*--device cpu/s);
    expect(await exited).toEqual([1, null]);
  });

  it('takes the key from MARTINGALE_API_KEY and does not show it', async () => {
    const flags = ['--allow-data-host', 'a.example.org', '--allow-data-host', 'b.example.org:8443'];
    const service = await serve('my-secret', '--log', 'all', '--allow-data-folder', data, ...flags);
    let logged = '';
    service.process.stderr?.on('data', (chunk) => {
      logged += chunk;
    });
    expect(service.text).not.toContain('my-secret');
    expect((await models(service.url, 'my-secret')).status).toBe(200);
    const post = async (path: string, body: object) => {
      const headers = { authorization: 'Bearer my-secret' };
      const options = { method: 'POST', headers, body: JSON.stringify(body) };
      return (await fetch(`${service.url}/v1/preview/${path}`, options)).text();
    };
    const model = await post('models', { project: 'desk', base_model: 'martingale-tiny' });
    const { id } = JSON.parse(model);
    const train = (url: string) => post('sft-training-jobs', { model_id: id, training_data_url: url });
    expect(await train('https://c.example.org/a')).toContain(
      'https://a.example.org, https://b.example.org:8443',
    );
    expect(await train('file:///nowhere')).toContain(await realpath(data));
    service.process.kill('SIGTERM');
    expect(await once(service.process, 'close')).toEqual([0, null]);
    expect(logged).toMatch(/"event":"request".*"path":"\/v1\/models"/);
    expect(logged).not.toContain('my-secret');
  });

  it('shows how to call it', () => {
    const text = welcome({ url: 'http://127.0.0.1:8000', createdKey: 'mg-1', storedKeys: 0, data: '/data' });
    expect(text).toContain('curl http://127.0.0.1:8000/v1/models -H "Authorization: Bearer mg-1"');
    const own = { url: 'http://127.0.0.1:8000', createdKey: null, data: '/data' };
    expect(welcome({ ...own, storedKeys: 0 })).toContain('Bearer $MARTINGALE_API_KEY"');
    expect(welcome({ ...own, storedKeys: 2 })).toContain('keys: 2 in the data folder');
  });
});
