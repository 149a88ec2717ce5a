import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startService, type TrainingDataOptions } from '../../src/service/index.ts';
import { temporaryFolder } from '../support/files.ts';
import { startServer } from '../support/http-server.ts';
import { door, ScriptedEngine } from '../support/scripted-engine.ts';
import { type Json, start } from './harness.ts';

const line = (reply: string) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: reply },
    ],
  });
const data = `${line('yes')}\n${line('no')}\n`;
const sha256 = createHash('sha256').update(data).digest('hex');

/** A service, and a folder of training data outside its own. */
async function withData(
  options: TrainingDataOptions = {},
  more: { preview?: number; engine?: ScriptedEngine } = {},
) {
  const { preview, engine } = more;
  const folder = await temporaryFolder();
  const running = await start({
    ...(engine ? { engine } : {}),
    ...(preview === undefined ? {} : { bodyLimits: { preview } }),
    trainingData: options,
  });
  const model = await running.createModel();
  const train = (url: string) =>
    running.call('POST', '/v1/preview/sft-training-jobs', { model_id: model.id, training_data_url: url });
  const refusal = async (url: string): Promise<string> => {
    const { status, body } = await train(url);
    expect({ url, status, loc: body.detail?.[0]?.loc?.slice(0, 2) }).toEqual({
      ...{ url, status: 422, loc: ['body', 'training_data_url'] },
    });
    return body.detail[0].msg;
  };
  return { ...running, folder, model, train, refusal };
}

const urlOf = (...path: string[]) => pathToFileURL(join(...path)).href;

/** A local file server without encryption. */
async function serve(listener: RequestListener): Promise<string> {
  const { url, close } = await startServer(listener);
  onTestFinished(close);
  return url;
}

describe('training data from a folder', () => {
  test('is stored as an upload before the job is accepted: the file may be deleted, and the job runs after a restart', async () => {
    const engine = new ScriptedEngine();
    const held = door();
    engine.hold = held.wait;
    const folder = await temporaryFolder();
    const { train, service, dataFolder } = await withData({ folders: [folder] }, { engine });
    writeFileSync(join(folder, 'two words.jsonl'), data);
    const job = await train(urlOf(folder, 'two words.jsonl'));
    expect(job.status).toBe(200);
    await held.reached;
    rmSync(folder, { recursive: true });
    await service.close();
    const again = await start({ dataFolder });
    expect((await again.follow(job.body.id)).at(-1)?.type).toBe('training_ended');
    expect(existsSync(join(dataFolder, 'uploads', `${sha256}.jsonl`))).toBe(true);
    // The same data is stored once.
    const models = (await again.call('GET', '/v1/preview/models')).body;
    const body = { model_id: models.data[0].id, training_data_url: `upload:sha256-${sha256}` };
    expect((await again.call('POST', '/v1/preview/sft-training-jobs', body)).status).toBe(200);
  });

  test('may be a folder with train.jsonl, or with trajectories.jsonl and their number', async () => {
    const folder = await temporaryFolder();
    const { train, refusal, follow } = await withData({ folders: [folder] });
    for (const [name, file, metadata] of [
      ['a', 'train.jsonl', undefined],
      ['b', 'trajectories.jsonl', '{"format":"jsonl","num_trajectories":2,"source":"elsewhere"}'],
      ['c', 'trajectories.jsonl', '{}'],
    ] as const) {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, file), data);
      if (metadata !== undefined) writeFileSync(join(folder, name, 'metadata.json'), metadata);
      const job = await train(urlOf(folder, name));
      expect(job.status, name).toBe(200);
      expect((await follow(job.body.id)).at(-1)?.type, name).toBe('training_ended');
    }
    const rewrite = (name: string, text: string) => writeFileSync(join(folder, 'b', name), text);
    rewrite('metadata.json', '{"num_trajectories":3}');
    expect(await refusal(urlOf(folder, 'b'))).toContain('num_trajectories 3, but the data has 2');
    for (const wrong of ['not json', '{"num_trajectories":"2"}', '{"format":"parquet"}']) {
      rewrite('metadata.json', wrong);
      expect(await refusal(urlOf(folder, 'b'))).toContain('metadata.json');
    }
    rewrite('train.jsonl', data);
    expect(await refusal(urlOf(folder, 'b'))).toContain('both');
    expect(await refusal(urlOf(folder))).toContain('neither');
  });

  test('must be within the allowed folders, also after resolving dots and links', async () => {
    const [allowed, outside] = [await temporaryFolder(), await temporaryFolder()];
    const { refusal, train } = await withData({ folders: [allowed] });
    writeFileSync(join(outside, 'train.jsonl'), data);
    mkdirSync(join(allowed, 'linked'));
    symlinkSync(join(outside, 'train.jsonl'), join(allowed, 'out.jsonl'));
    symlinkSync(outside, join(allowed, 'out'));
    symlinkSync(join(outside, 'train.jsonl'), join(allowed, 'linked', 'train.jsonl'));
    const sibling = `${allowed}-more`;
    mkdirSync(sibling);
    onTestFinished(() => rmSync(sibling, { recursive: true }));
    writeFileSync(join(sibling, 'train.jsonl'), data);
    for (const url of [
      urlOf(outside, 'train.jsonl'),
      urlOf(sibling, 'train.jsonl'),
      `file://${allowed}/../${outside.split('/').at(-1)}/train.jsonl`,
      urlOf(allowed, 'out.jsonl'),
      urlOf(allowed, 'out', 'train.jsonl'),
      urlOf(allowed, 'out'),
      urlOf(allowed, 'linked'),
      urlOf(allowed, 'nothing.jsonl'),
    ])
      expect(await refusal(url)).toContain(allowed);
    for (const url of [`file://elsewhere${allowed}/a`, `file://${allowed}/a%2Fb`])
      expect(await refusal(url)).toContain('is not a local path');
    symlinkSync(join(allowed, 'in.jsonl'), join(allowed, 'inside.jsonl'));
    writeFileSync(join(allowed, 'in.jsonl'), data);
    expect((await train(urlOf(allowed, 'inside.jsonl'))).status).toBe(200);
  });

  test('is refused with its line if one is invalid, and if it is not text, not a file or too long', async () => {
    const folder = await temporaryFolder();
    const { refusal, train } = await withData({ folders: [folder] }, { preview: 600 });
    const write = (text: string | Buffer) => {
      writeFileSync(join(folder, 'a.jsonl'), text);
      return urlOf(folder, 'a.jsonl');
    };
    const broken = await train(write(`${data}{"messages": [{"role": "user", "content": "?"}]}\n`));
    expect(broken.body.detail).toMatchObject([
      { loc: ['body', 'training_data_url', 'line 3', 'messages'], msg: expect.stringContaining('line 3') },
    ]);
    expect(await refusal(write('\n \n'))).toContain('the training data is empty');
    expect(await refusal(write(Buffer.from([0xff, 0xfe, 0x00])))).toContain('UTF-8');
    expect(await refusal(write('x'.repeat(601)))).toContain('600');
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    expect(await refusal(urlOf(folder, 'pipe'))).toContain('is not a regular file');
  });

  test('is refused, with the reason, if the operator has allowed none', async () => {
    const { refusal, folder } = await withData();
    writeFileSync(join(folder, 'train.jsonl'), data);
    expect(await refusal(urlOf(folder, 'train.jsonl'))).toContain('--allow-data-folder');
    expect(await refusal('https://data.example.org/train.jsonl')).toContain('--allow-data-host');
    expect(await refusal(`upload:sha256-${'0'.repeat(64)}`)).toContain('no such upload');
    for (const url of [
      'upload:sha256-abc',
      'wandb-artifact:///a/b/c:v0',
      's3://bucket/train.jsonl',
      'train.jsonl',
    ])
      expect(await refusal(url)).toContain('upload:sha256-<hex>');
  });

  test('needs existing folders and valid hosts, or the start fails', async () => {
    const dataFolder = await temporaryFolder();
    for (const trainingData of [
      { folders: [join(dataFolder, 'nowhere')] },
      { hosts: ['data.example.org/path'] },
      { hosts: ['ftp://data.example.org'] },
      { hosts: [''] },
    ])
      await expect(
        startService({ engine: new ScriptedEngine(), dataFolder, trainingData }),
      ).rejects.toMatchObject({
        code: 'bad_option',
      });
  });
});

describe('training data from a host', () => {
  test('is fetched, through redirects among the allowed hosts', async () => {
    const second = await serve((_, response) => response.end(data));
    const first = await serve((request, response) => {
      if (request.url === '/old') response.writeHead(302, { location: '/new' }).end();
      else response.writeHead(307, { location: `${second}/train.jsonl` }).end('gone elsewhere');
    });
    const { train, follow } = await withData({ hosts: [first, second] });
    const job = await train(`${first}/old`);
    expect(job.status).toBe(200);
    expect((await follow(job.body.id)).at(-1)?.type).toBe('training_ended');
  });

  test('is fetched from no other host, not through a redirect either', async () => {
    let requests = 0;
    const other = await serve((_, response) => {
      requests++;
      response.end(data);
    });
    const allowed = await serve((_, response) => response.writeHead(302, { location: `${other}/a` }).end());
    const { refusal } = await withData({ hosts: [allowed, 'data.example.org'] });
    expect(await refusal(`${other}/a`)).toContain(`allowed are ${allowed}, https://data.example.org`);
    expect(await refusal(`${allowed}/a`)).toContain(`redirects to ${other}`);
    // A host without a scheme is requested only with encryption, and only on its own port.
    for (const url of [
      'http://data.example.org/a',
      'https://data.example.org:444/a',
      'https://evil-data.example.org/a',
    ])
      expect(await refusal(url)).toContain('not a host that data may be fetched from');
    expect(await refusal('https://user:secret@data.example.org/a')).toContain('password');
    expect(requests).toBe(0);
  });

  test('names the reason if the transfer fails', async () => {
    const chatty = await serve((request, response) => {
      if (request.url === '/loop') response.writeHead(302, { location: '/loop' }).end();
      else if (request.url === '/long') response.end('x'.repeat(700));
      else if (request.url === '/broken') response.end('{"messages": []}');
      else response.writeHead(404).end();
    });
    const { refusal, train } = await withData({ hosts: [chatty, 'http://127.0.0.1:1'] }, { preview: 600 });
    expect(await refusal(`${chatty}/nothing`)).toContain('answered 404');
    expect(await refusal(`${chatty}/loop`)).toContain('redirected more than 5 times');
    expect(await refusal(`${chatty}/long`)).toContain('600 bytes');
    expect(await refusal('http://127.0.0.1:1/a')).toContain('could not be fetched');
    const broken: Json = (await train(`${chatty}/broken`)).body;
    expect(broken.detail[0].loc).toEqual(['body', 'training_data_url', 'line 1', 'messages']);
  });

  test('fails at the deadline', async () => {
    const silent = await serve((_, response) => response.write('{'));
    const { refusal } = await withData({ hosts: [silent], timeoutMs: 50 });
    expect(await refusal(`${silent}/endless`)).toContain('longer than 50 ms');
  });
});
