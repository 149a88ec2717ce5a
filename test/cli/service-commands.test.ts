import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createClient } from 'martingale';
import { type RunningService, startService } from 'martingale/service';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { printPieces } from '../../src/cli/service-commands/print-pieces.ts';
import { output } from '../support/command.ts';
import { sharedFolder } from '../support/files.ts';
import { startServer, unusedUrl } from '../support/http-server.ts';
import { withoutCheckpoints } from '../support/model-pages.ts';
import { baseModel, ScriptedEngine, special, tokensOf } from '../support/scripted-engine.ts';

const folder = sharedFolder();
let service: RunningService;

beforeAll(async () => {
  const engine = new ScriptedEngine();
  engine.replies = [{ tokens: tokensOf('hello \u001b[31mred', special.end) }];
  service = await startService({ engine, dataFolder: join(folder, 'data') });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  await client.models.create({ entity: 'a', project: 'shop', name: 'desk', base_model: baseModel.id });
  await client.close();
});
afterAll(() => service?.close());

const martingale = (...args: string[]) =>
  output(args, { MARTINGALE_BASE_URL: service.url, MARTINGALE_API_KEY: service.apiKey });

it('models and checkpoints list what a service has', async () => {
  expect(await martingale('models')).toMatch(/^MODEL.*\na\/shop\/desk +\S+ +\S+ +[\w-]{36}\n$/);
  expect(JSON.parse(await martingale('models', '--json'))).toMatchObject({ project: 'shop', name: 'desk' });
  expect(await martingale('checkpoints', 'shop/desk')).toMatch(/^STEP.*\n0 +a\/shop\/desk:step0/);
  await expect(martingale('checkpoints', 'shop/absent')).rejects.toThrow('There is no model shop/absent');
});

it('checkpoints are deleted only when somebody says so', async () => {
  await expect(martingale('checkpoints', 'shop/desk', '--delete', '7')).rejects.toThrow('needs --yes');
  await expect(martingale('checkpoints', 'shop/desk', '--delete', '7', '--yes')).rejects.toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining(
      'nothing was deleted, because a/shop/desk has no step 7: `martingale checkpoints a/shop/desk` lists its steps.',
    ),
  });
});

it('checkpoints says which steps it did not find, and that a model has none', async () => {
  const { url, close } = await startServer(withoutCheckpoints);
  onTestFinished(close);
  const env = { MARTINGALE_BASE_URL: url, MARTINGALE_API_KEY: 'key' };
  const checkpoints = (...args: string[]) => output(['checkpoints', 'shop/desk', ...args], env);
  expect(await checkpoints('--delete', '0', '7', '--yes')).toBe('deleted 1; there is no step 7\n');
  expect(await checkpoints()).toBe('a/shop/desk has no checkpoints.\n');
  expect(await checkpoints('--json')).toBe('');
});

it('jobs lists those of all models or of one, newest first', async () => {
  expect(await martingale('jobs')).toBe('There are no training jobs.\n');
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  const { data } = await client.models.list();
  const line = {
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'hello' },
    ],
  };
  const { url } = await client.uploads.create(JSON.stringify(line));
  const job = await client.sftTrainingJobs.create({ model_id: data[0]?.id ?? '', training_data_url: url });
  for await (const _ of client.trainingJobs.follow(job.id));
  await client.close();
  const rows = new RegExp(`^MODEL.*\\na/shop/desk +1 +sft +succeeded +\\S+ +${job.id}\\n$`);
  expect(await martingale('jobs')).toMatch(rows);
  expect(await martingale('jobs', 'shop/desk')).toMatch(rows);
  expect(JSON.parse(await martingale('jobs', '--json'))).toMatchObject({ id: job.id, kind: 'sft' });
  await expect(martingale('jobs', '--follow')).rejects.toThrow('--follow needs the id of a job');
  expect(await martingale('jobs', job.id.slice(0, 6))).toMatch(new RegExp(`^${job.id}  succeeded\\n`));
  await expect(martingale('jobs', 'nope')).rejects.toThrow('no job whose id begins with nope');
});

it('jobs says that there is no such job, and a missing key is named', async () => {
  await expect(martingale('jobs', '00000000-0000-4000-8000-000000000000')).rejects.toThrow(/404/);
  const env = { MARTINGALE_API_KEY: '', MARTINGALE_BASE_URL: service.url };
  await expect(output(['models'], env)).rejects.toThrow(
    `the key of the service at ${service.url} is missing`,
  );
});

it('the beginning of an id that several jobs have is refused with them', async () => {
  const jobs = ['4f1c0000', '4f1c1111', '5a000000'].map((start) => ({
    id: `${start}-0000-4000-8000-000000000000`,
  }));
  const page = (data: object[]) => JSON.stringify({ data, has_more: false, first_id: '', last_id: '' });
  const model = { ...{ entity: 'a', project: 'shop', name: 'desk' }, base_model: 'tiny', id: jobs[0]?.id };
  const { url, close } = await startServer(({ url: path = '' }, response) => {
    const body = path.includes('training-jobs?')
      ? page(jobs)
      : path.includes('/models?')
        ? page([model])
        : '{}';
    response.writeHead(200, { 'content-type': 'application/json' }).end(body);
  });
  onTestFinished(close);
  const env = { MARTINGALE_BASE_URL: url, MARTINGALE_API_KEY: 'key' };
  const asked = output(['jobs', '4f1c'], env);
  await expect(asked).rejects.toThrow(/2 jobs begin with 4f1c.*4f1c0000-.*4f1c1111-/);
});

it('a command asks a wrong address once, and names it', async () => {
  let asked = 0;
  const { url, close } = await startServer((_, response) => {
    asked++;
    response.writeHead(200, { 'content-type': 'text/html' }).end('<html><title>My shop</title></html>');
  });
  onTestFinished(close);
  const ask = (address: string) =>
    output(['models'], { MARTINGALE_BASE_URL: address, MARTINGALE_API_KEY: 'key' });
  await expect(ask(url)).rejects.toThrow(`What answers at ${url} is not a martingale service (text/html)`);
  expect(asked).toBe(1);
  const nowhere = await unusedUrl();
  await expect(ask(nowhere)).rejects.toThrow(`${nowhere} cannot be reached: connect ECONNREFUSED`);
});

it('a command to the terminal is not printed, wherever the pieces of a reply are cut', () => {
  const reply = 'say \u001b[31mred\u001b[0m and \u001b]0;title\u0007 stop\u001b';
  const printed = (...pieces: string[]) => {
    let text = '';
    const { add, end } = printPieces((piece) => {
      text += piece;
    });
    for (const piece of pieces) add(piece);
    end();
    return text;
  };
  const whole = printed(reply);
  expect(whole).toBe('say red and  stop ');
  for (let at = 0; at <= reply.length; at++) expect(printed(reply.slice(0, at), reply.slice(at))).toBe(whole);
  expect(printed(...reply)).toBe(whole);
});

it('chat prints what a model says, without what could command the terminal', async () => {
  expect(await martingale('chat', 'hi', '--model', 'shop/desk')).toBe('hello red\n');
  await expect(martingale('chat', 'hi', '--model', 'shop/dask')).rejects.toThrow('Did you mean a/shop/desk?');
  const completion = JSON.parse(await martingale('chat', 'hi', '--model', 'a/shop/desk:step0', '--json'));
  expect(completion.model).toBe('a/shop/desk:step0');
});

it('completion offers commands and flags in bash', async () => {
  const script = await martingale('completion', 'bash');
  const complete = async (...words: string[]) => {
    const list = ['martingale', ...words].map((word) => `'${word}'`).join(' ');
    const body = `${script}\nCOMP_WORDS=(${list}); COMP_CWORD=${words.length}; _martingale; echo "\${COMPREPLY[@]}"`;
    return (await promisify(execFile)('bash', ['-c', body])).stdout.trim().split(' ');
  };
  expect(await complete('pre')).toEqual(['preflight']);
  expect(await complete('show', '--w')).toEqual(['--worst']);
  expect(await complete('keys', '')).toEqual(expect.arrayContaining(['create', 'list', 'revoke']));
  expect(await complete('show', 'a-run', '--st')).toEqual(['--step']);
  for (const shell of ['zsh', 'fish']) expect(await martingale('completion', shell)).toContain('preflight');
});
