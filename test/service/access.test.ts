import { readdir } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { startService } from '../../src/service/index.ts';
import { temporaryFolder } from '../support/files.ts';
import { ScriptedEngine } from '../support/scripted-engine.ts';
import { type Json, start } from './harness.ts';

const id = '00000000-0000-4000-8000-000000000000';

const everyPath: [string, string][] = [
  ['POST', `/v1/preview/models/${id}/fork`],
  ['GET', `/v1/preview/models/${id}/checkpoints/0/download`],
  ['PUT', '/v1/health'],
  ['OPTIONS', '/v1/health'],
  ['GET', '/v1/nothing'],
  ['POST', '/v1/chat/completions'],
  ['POST', '/v1/chat/completions/'],
  ['POST', '/v1/preview/models'],
  ['GET', '/v1/preview/models'],
  ['GET', `/v1/preview/models/${id}`],
  ['DELETE', `/v1/preview/models/${id}`],
  ['GET', `/v1/preview/models/${id}/checkpoints`],
  ['DELETE', `/v1/preview/models/${id}/checkpoints`],
  ['POST', `/v1/preview/models/${id}/log`],
  ['POST', '/v1/preview/sft-training-jobs'],
  ['POST', '/v1/preview/training-jobs'],
  ['GET', `/v1/preview/training-jobs/${id}`],
  ['GET', `/v1/preview/training-jobs/${id}/events`],
  ['POST', `/v1/preview/training-jobs/${id}/cancel`],
  ['POST', '/v1/preview/uploads'],
  ['GET', '/v1/health'],
  ['GET', '/v1/system-check'],
  ['GET', '/v1/models'],
  ['GET', '/v1/openapi.json'],
];

describe('access', () => {
  test('refuses requests without the key or with another one on every path', async () => {
    const { raw } = await start();
    for (const [method, path] of everyPath)
      for (const authorization of ['', 'Bearer wrong', 'Basic test-key', 'Bearer test-key-and-more']) {
        const response = await raw(method, path, method === 'POST' ? {} : undefined, { authorization });
        expect([method, path, response.status]).toEqual([method, path, 401]);
        expect(response.headers.get('www-authenticate')).toBe('Bearer');
        expect(response.headers.get('x-request-id')).toMatch(/^[\w-]{36}$/);
        const body: Json = await response.json();
        expect(body.detail).toMatch(/key/i);
        if (path.startsWith('/v1/chat')) expect(body.error.type).toBe('authentication_error');
      }
  });

  test('creates a random key by default', async () => {
    const engine = new ScriptedEngine();
    const first = await startService({ engine, dataFolder: await temporaryFolder() });
    const second = await startService({ engine, dataFolder: await temporaryFolder() });
    expect(first.apiKey).toMatch(/^mg-[\w-]{43}$/);
    expect(first.apiKey).not.toBe(second.apiKey);
    const answer = await fetch(`${first.url}/v1/health`, {
      headers: { authorization: `Bearer ${first.apiKey}` },
    });
    expect(await answer.json()).toEqual({ status: 'ok' });
    await Promise.all([first.close(), second.close()]);
  });

  test('refuses a public address without a key of its own', async () => {
    const dataFolder = await temporaryFolder();
    const starting = startService({ engine: new ScriptedEngine(), dataFolder, host: '0.0.0.0' });
    await expect(starting).rejects.toMatchObject({ code: 'key_required' });
    expect(await readdir(dataFolder)).toEqual([]);
  });

  test('refuses a data folder that another service uses, until it is closed', async () => {
    const { dataFolder, service } = await start();
    const engine = new ScriptedEngine();
    await expect(startService({ engine, dataFolder })).rejects.toMatchObject({ code: 'data_folder_in_use' });
    await service.close();
    await service.close();
    const again = await startService({ engine, dataFolder });
    await again.close();
  });

  test('returns the request id that was sent, else a new one', async () => {
    const { call } = await start();
    const answer = await call('GET', '/v1/health', undefined, { 'x-request-id': 'mine-1' });
    expect(answer.headers.get('x-request-id')).toBe('mine-1');
    expect((await call('GET', '/v1/health')).headers.get('x-request-id')).toMatch(/^[\w-]{36}$/);
  });

  test('reports its components, and lists base and trained models', async () => {
    const { call, createModel } = await start();
    await createModel();
    const { status, body } = await call('GET', '/v1/system-check');
    expect(status).toBe(200);
    for (const part of ['api', 'database', 'training_queue', 'inference_queue'])
      expect(body[part]).toMatchObject({ success: true, error: null });
    const models = await call('GET', '/v1/models');
    expect(models.body.object).toBe('list');
    expect(models.body.data).toMatchObject([
      { id: 'scripted-tiny', object: 'model', owned_by: 'scripted', root: 'scripted-tiny' },
      { id: 'local/desk/agent', object: 'model', owned_by: 'local', root: 'scripted-tiny' },
    ]);
  });

  test('refuses unknown paths and methods in the form that OpenAI clients read', async () => {
    const { call, raw } = await start();
    for (const path of ['/v1/responses', '/v1/messages']) {
      const { status, body } = await call('POST', path, {});
      expect(status).toBe(404);
      expect(body.error).toEqual({
        message: expect.stringMatching(
          /no path \/v1\/(responses|messages)\..*POST \/v1\/chat\/completions.*`model\.endpoint\(\)`/,
        ),
        ...{ type: 'not_found_error', param: null, code: 'no_such_path' },
      });
      expect(body.detail).toBe(body.error.message);
    }
    // Anthropic's clients send their key in a header of their own, add /v1 to the base URL, and read `type`.
    for (const path of ['/v1/messages', '/v1/v1/messages?beta=true']) {
      const response = await raw('POST', path, {}, { authorization: '', 'x-api-key': 'any' });
      expect([response.status, await response.json()]).toMatchObject([
        404,
        {
          type: 'error',
          error: { type: 'not_found_error', message: expect.stringMatching(/endpoint\(\)`\.$/) },
        },
      ]);
    }
    for (const path of ['/chat/completions', '/v1/v1/chat/completions', '/v1/v1/models'])
      expect((await call('POST', path, {})).body.error.message).toMatch(/must end in \/v1, once/);
    const older = await call('POST', '/v1/completions', {});
    expect(older.body.error.message).toMatch(/no path \/v1\/completions\. .*POST \/v1\/chat\/completions\.$/);
    // Ollama's clients show `error` as it is.
    for (const authorization of ['', 'Bearer wrong'])
      expect(await (await raw('POST', '/api/chat', {}, { authorization })).json()).toEqual({
        error: expect.any(String),
      });
    const ollama = await call('POST', '/api/chat', {});
    expect(ollama.body.error).toMatch(/no path \/api\/chat\. .*a base URL that ends in \/v1\.$/);
    const embeddings = await call('POST', '/v1/embeddings', {});
    expect(embeddings.body.error.message).toMatch(/no path \/v1\/embeddings\. GET \/v1\/openapi\.json/);
    const long = await call('GET', `/v1/${'x'.repeat(5000)}`);
    expect(long.body.error.message.length).toBeLessThan(300);
    const unknownKey = await raw('POST', '/v1/responses', {}, { authorization: 'Bearer wrong' });
    expect(await unknownKey.json()).toMatchObject({ error: { type: 'authentication_error' } });
    const other = await call('PATCH', '/v1/preview/models', {});
    expect(other.status).toBe(405);
    expect(other.body.error).toMatchObject({ code: 'method_not_allowed', message: other.body.detail });
  });

  test('answers 404 for an unknown path, and 500 without internal details for a failure', async () => {
    const engine = new ScriptedEngine();
    const { call, chat, log } = await start({ engine });
    expect(await call('GET', '/v1/nothing')).toMatchObject({
      status: 404,
      body: { detail: expect.stringMatching(/^Not Found: there is no path \/v1\/nothing\./) },
    });
    engine.failGeneration = new TypeError('secret inside');
    const { status, body } = await chat({});
    expect(status).toBe(500);
    expect(JSON.stringify(body)).not.toContain('secret');
    expect(body.error).toMatchObject({ type: 'server_error', code: 'internal_error' });
    expect(JSON.stringify(log)).toContain('secret inside');
  });
});
