import { describe, expect, test } from 'vitest';
import { door, ScriptedEngine } from '../../support/scripted-engine.ts';
import { type Json, start } from '../harness.ts';
import { groups, line, rl, sft, unknown } from './support.ts';

describe('events', () => {
  test('pages and the stream show the same events, and both continue after an id', async () => {
    const { call, createModel, follow } = await start();
    const model = await createModel();
    const upload = await call(
      'POST',
      '/v1/preview/uploads',
      [1, 2, 3, 4].map((n) => line(`r${n}`)).join('\n'),
    );
    const job = await call('POST', sft, {
      model_id: model.id,
      training_data_url: upload.body.url,
      config: { batch_size: 1 },
    });
    const events = await follow(job.body.id);
    expect(events).toHaveLength(6);
    const seen: Json[] = [];
    let after = '';
    for (;;) {
      const { body } = await call('GET', `${rl}/${job.body.id}/events?limit=4&after=${after}`);
      seen.push(...body.data);
      after = body.last_id;
      if (!body.has_more) break;
    }
    expect(seen).toEqual(events);
    const resumed = await follow(job.body.id, { 'last-event-id': events[2].id });
    expect(resumed).toEqual(events.slice(3));
    expect(await follow(job.body.id, { 'last-event-id': events[5].id })).toEqual([]);
    expect((await call('GET', `${rl}/${job.body.id}/events?after=${unknown}`)).status).toBe(422);
    const foreign = { accept: 'text/event-stream', 'last-event-id': unknown };
    expect(await call('GET', `${rl}/${job.body.id}/events`, undefined, foreign)).toMatchObject({
      status: 422,
      body: { detail: [{ loc: ['header', 'Last-Event-ID'], input: unknown }] },
    });
  });

  test.each([
    ['text/event-stream', true],
    ['text/event-stream, application/json;q=0.5', true],
    ['application/json, text/event-stream;q=0.1', false],
    ['text/event-stream;q=0', false],
    ['*/*', false],
  ])('Accept: %s decides between stream and page', async (accept, streamed) => {
    const { call, createModel, follow, raw } = await start();
    const model = await createModel();
    const job = await call('POST', rl, { model_id: model.id.toUpperCase(), trajectory_groups: groups });
    await follow(job.body.id);
    const response = await raw('GET', `${rl}/${job.body.id.toUpperCase()}/events`, undefined, { accept });
    const type = response.headers.get('content-type') ?? '';
    await response.text();
    expect(type.startsWith('text/event-stream')).toBe(streamed);
  });

  test('the stream sends events as they happen', async () => {
    const { call, createModel, raw, engine } = await start();
    const model = await createModel();
    const held = door();
    engine.hold = held.wait;
    const job = await call('POST', rl, { model_id: model.id, trajectory_groups: groups });
    const response = await raw('GET', `${rl}/${job.body.id}/events`, undefined, {
      accept: 'text/event-stream',
    });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    let text = '';
    for await (const chunk of response.body ?? []) {
      text += Buffer.from(chunk).toString('utf8');
      if (text.includes('training_started')) held.open();
    }
    const ids = [...text.matchAll(/^id: (.+)$/gm)].map(([, id]) => id);
    const events = [...text.matchAll(/^data: (.+)$/gm)].map(([, data]) => JSON.parse(data ?? ''));
    expect(events.map(({ id }) => id)).toEqual(ids);
    expect(events.at(-1).type).toBe('training_ended');
  });

  test('an open stream ends when the model is deleted', async () => {
    const { call, createModel, raw, engine } = await start();
    const model = await createModel();
    const held = door();
    engine.hold = held.wait;
    const job = await call('POST', rl, { model_id: model.id, trajectory_groups: groups });
    await held.reached;
    const response = await raw('GET', `${rl}/${job.body.id}/events`, undefined, {
      accept: 'text/event-stream',
    });
    await call('DELETE', `/v1/preview/models/${model.id}`);
    expect(await response.text()).toContain('training_started');
  });

  test('an open stream ends when the service closes', async () => {
    const engine = new ScriptedEngine();
    const { call, createModel, raw, service } = await start({ engine });
    const model = await createModel();
    const held = door();
    engine.hold = held.wait;
    const job = await call('POST', rl, { model_id: model.id, trajectory_groups: groups });
    await held.reached;
    const response = await raw('GET', `${rl}/${job.body.id}/events`, undefined, {
      accept: 'text/event-stream',
    });
    const [text] = await Promise.all([response.text(), service.close()]);
    expect(text).toContain('training_started');
  });
});
