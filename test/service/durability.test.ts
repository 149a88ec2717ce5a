import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { describe, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../support/files.ts';
import { fromSource } from '../support/programs.ts';
import { door, ScriptedEngine, special, tokensOf } from '../support/scripted-engine.ts';
import { callsTo, group, type Json, start, trajectory } from './harness.ts';

const sampled = tokensOf('yes', special.end);
const groups = [group(trajectory(1, sampled), trajectory(0, sampled))];
const rl = '/v1/preview/training-jobs';
const program = fileURLToPath(new URL('held-service.ts', import.meta.url));
const example = (reply: string) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: reply },
    ],
  });

/** A service in a process of its own, whose training stops after `steps` gradient steps. */
async function startProcess(
  dataFolder: string,
  steps: number,
): Promise<{ url: string; process: ChildProcess }> {
  const child = spawn(process.execPath, [...fromSource, program, dataFolder, String(steps)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  for await (const chunk of child.stdout) {
    const url = /^url (\S+)/m.exec(String(chunk))?.[1];
    if (url !== undefined) return { url, process: child };
  }
  throw new Error('the service did not start');
}

const post = async (url: string, ...request: [string, unknown, Record<string, string>?]): Promise<Json> =>
  (await callsTo(url).call('POST', ...request)).body;

describe('the service', () => {
  test('loses nothing at a restart between two jobs', async () => {
    const dataFolder = await temporaryFolder();
    const before = await start({ dataFolder });
    const model = await before.createModel();
    const first = await before.call('POST', rl, { model_id: model.id, trajectory_groups: groups });
    const events = await before.follow(first.body.id);
    await before.service.close();

    const after = await start({ dataFolder });
    expect((await after.call('GET', `/v1/preview/models/${model.id}`)).body).toEqual(model);
    expect(await after.follow(first.body.id)).toEqual(events);
    const second = await after.call('POST', rl, { model_id: model.id, trajectory_groups: groups });
    expect((await after.follow(second.body.id)).at(-1)).toMatchObject({ data: { step: 2 } });
    expect(after.engine.trained[0]?.from.folder).toBe(
      join(dataFolder, 'models', model.id, 'checkpoints', 'step-1'),
    );
    expect((await after.chat({ model: 'local/desk/agent' })).body.model).toBe('local/desk/agent:step2');
  });

  test('returns a running job to the queue at a close; the next service runs it once', async () => {
    const dataFolder = await temporaryFolder();
    const engine = new ScriptedEngine();
    const held = door();
    engine.hold = held.wait;
    const before = await start({ dataFolder, engine });
    const model = await before.createModel();
    const ids: string[] = [];
    for (let index = 0; index < 2; index++)
      ids.push((await before.call('POST', rl, { model_id: model.id, trajectory_groups: groups })).body.id);
    await held.reached;
    await before.service.close();

    const after = await start({ dataFolder });
    for (const [index, id] of ids.entries()) {
      const events = await after.follow(id);
      expect(events.map(({ type }) => type)).toEqual(['training_started', 'gradient_step', 'training_ended']);
      expect(events.at(-1).data.step).toBe(index + 1);
    }
    expect(after.engine.trainings).toBe(2);
  });

  test('completes a job once, with one event for each step, after a kill between its steps', async () => {
    const dataFolder = await temporaryFolder();
    const { url, process: child } = await startProcess(dataFolder, 2);
    const upload = await post(url, '/v1/preview/uploads', ['a', 'b', 'c', 'd'].map(example).join('\n'));
    const model = await post(url, '/v1/preview/models', {
      project: 'p',
      name: 'm',
      base_model: 'scripted-tiny',
    });
    const job = await post(
      url,
      '/v1/preview/sft-training-jobs',
      { model_id: model.id, training_data_url: upload.url, config: { batch_size: 1 } },
      { 'idempotency-key': 'job-1' },
    );
    const stream = await fetch(`${url}${rl}/${job.id}/events`, {
      headers: { authorization: 'Bearer test-key', accept: 'text/event-stream' },
    });
    let seen = '';
    for await (const chunk of stream.body ?? []) {
      seen += Buffer.from(chunk).toString('utf8');
      if (seen.split('gradient_step').length > 2) break;
    }
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
    // Possible leftovers of a kill: a half-written checkpoint, the files of a model and of a job without a record.
    const orphan = join(dataFolder, 'models', model.id, 'checkpoints', 'step-1.partial');
    mkdirSync(orphan, { recursive: true });
    mkdirSync(join(dataFolder, 'models', randomUUID()));
    writeFileSync(join(dataFolder, 'jobs', `${randomUUID()}.jsonl.gz`), '');
    writeFileSync(join(dataFolder, 'uploads', `${'0'.repeat(64)}.jsonl`), '');

    const after = await start({ dataFolder });
    const events = await after.follow(job.id);
    expect(events.map(({ type }) => type)).toEqual([
      'training_started',
      ...Array.from({ length: 4 }, () => 'gradient_step'),
      'training_ended',
    ]);
    expect(events.slice(1, 5).map(({ data }) => data.loss)).toEqual([1, 1 / 2, 1 / 3, 1 / 4]);
    const { data } = (await after.call('GET', `/v1/preview/models/${model.id}/checkpoints`)).body;
    expect(data.map(({ step }: { step: number }) => step)).toEqual([0, 1]);
    expect(existsSync(orphan)).toBe(false);
    expect(readdirSync(join(dataFolder, 'models'))).toEqual([model.id]);
    expect(readdirSync(join(dataFolder, 'jobs'))).toEqual([]);
    expect(readdirSync(join(dataFolder, 'uploads'))).toEqual([`${upload.sha256}.jsonl`]);
    const repeated = await post(
      after.service.url,
      '/v1/preview/sft-training-jobs',
      { model_id: model.id, training_data_url: upload.url, config: { batch_size: 1 } },
      { 'idempotency-key': 'job-1' },
    );
    expect(repeated).toEqual(job);
  });

  test('keeps a log readable after a crash within a line', async () => {
    const { call, createModel, dataFolder } = await start();
    const model = await createModel();
    const path = `/v1/preview/models/${model.id}/log`;
    const body = { split: 'train', trajectory_groups: groups };
    await call('POST', path, body);
    const file = join(dataFolder, 'models', model.id, 'logs', 'train.jsonl.gz');
    appendFileSync(file, Buffer.from([31, 139, 8, 0]));
    await call('POST', path, body);
    expect(gunzipSync(readFileSync(file)).toString('utf8').trim().split('\n')).toHaveLength(2);
  });
});

describe('Idempotency-Key', () => {
  const key = { 'idempotency-key': 'k1' };
  const body = { project: 'desk', base_model: 'scripted-tiny' };

  test('the same key and body return the first answer: at once, concurrently, and after a restart', async () => {
    const dataFolder = await temporaryFolder();
    const before = await start({ dataFolder });
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => before.call('POST', '/v1/preview/models', body, key)),
    );
    const [first] = answers;
    for (const answer of answers) expect(answer.body).toEqual(first?.body);
    expect((await before.call('POST', '/v1/preview/models', body, key)).body).toEqual(first?.body);
    await before.service.close();
    const after = await start({ dataFolder });
    expect((await after.call('POST', '/v1/preview/models', body, key)).body).toEqual(first?.body);
    expect((await after.call('GET', '/v1/preview/models')).body.data).toHaveLength(1);
    await after.call('DELETE', `/v1/preview/models/${first?.body.id}`);
    const anew = await after.call('POST', '/v1/preview/models', body, key);
    expect(anew.status).toBe(200);
    expect(anew.body.id).not.toBe(first?.body.id);
  });

  test('the same key with another body or path is a 409; a refused request does not use the key', async () => {
    const { call } = await start();
    const wrong = await call('POST', '/v1/preview/models', { ...body, base_model: 'x' }, key);
    expect(wrong.status).toBe(422);
    expect((await call('POST', '/v1/preview/models', body, key)).status).toBe(200);
    for (const [path, other] of [
      ['/v1/preview/models', { ...body, project: 'else' }],
      [rl, body],
    ] as const)
      expect(await call('POST', path, other, key)).toMatchObject({
        status: 409,
        body: { detail: expect.stringContaining('"k1"') },
      });
    expect(
      (await call('POST', '/v1/preview/models', body, { 'idempotency-key': 'x'.repeat(300) })).status,
    ).toBe(422);
  });

  test('after a crash between creation and answer, the repeat finds what was created', async () => {
    const before = await start();
    const { dataFolder } = before;
    const model = await before.createModel();
    const request = { model_id: model.id, trajectory_groups: groups };
    const first = await before.call('POST', rl, request, key);
    await before.follow(first.body.id);
    await before.service.close();
    const database = new DatabaseSync(join(dataFolder, 'martingale.sqlite'));
    // The reservation without its answer: the state after a crash between the two.
    database.exec('UPDATE idempotency_keys SET status = NULL, body = NULL, model_id = NULL');
    database.close();
    const again = await start({ dataFolder });
    expect((await again.call('POST', rl, request, key)).body).toEqual(first.body);
    expect(await again.follow(first.body.id)).toHaveLength(3);
    expect(again.engine.trainings).toBe(0);
  });

  test('a repeated job and a repeated log take effect once', async () => {
    const { call, createModel, follow, engine, dataFolder } = await start();
    const model = await createModel();
    const request = { model_id: model.id, trajectory_groups: groups };
    const [first, second] = await Promise.all([
      call('POST', rl, request, key),
      call('POST', rl, request, key),
    ]);
    expect(first?.body).toEqual(second?.body);
    await follow(first?.body.id);
    expect((await call('POST', rl, request, key)).body).toEqual(first?.body);
    const log = { split: 'train', trajectory_groups: groups };
    for (let index = 0; index < 2; index++)
      await call('POST', `/v1/preview/models/${model.id}/log`, log, { 'idempotency-key': 'k2' });
    expect(engine.trainings).toBe(1);
    const file = join(dataFolder, 'models', model.id, 'logs', 'train.jsonl.gz');
    expect(gunzipSync(readFileSync(file)).toString('utf8').trim().split('\n')).toHaveLength(1);
  });
});
