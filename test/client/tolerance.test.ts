import { describe, expect, it } from 'vitest';
import { json, serve, uuid } from './server.ts';

/** Answers of services with fewer or more fields than ours, or other values of open ones. */
describe('the client reads answers of other services:', () => {
  it('a model without a run, or with unknown fields', async () => {
    const model = { id: 'm-1', entity: 'e', project: 'p', name: 'n', base_model: 'b' };
    const read = { ...model, run_id: null, forked_from: null, engine: null };
    const { client } = await serve(
      json(model),
      json({ ...model, run_id: 'r', created_by: { id: 7 }, forked_from: 'another' }),
    );
    expect(await client.models.get('m-1')).toEqual(read);
    expect(await client.models.get('m-1')).toEqual({ ...read, run_id: 'r' });
  });

  it('a page without first and last id', async () => {
    const item = (step: number) => ({ id: `c-${step}`, step, metrics: null });
    const { client, received } = await serve(
      json({ data: [item(0), item(1)], has_more: true, first_id: null, last_id: null }),
      json({ data: [{ id: 'c-2', step: 2, metrics: { loss: null } }], has_more: false }),
    );
    const checkpoints = [];
    for await (const checkpoint of client.models.checkpoints.list('m-1')) checkpoints.push(checkpoint);
    expect(checkpoints).toEqual([0, 1, 2].map((step) => ({ id: `c-${step}`, step, metrics: {} })));
    expect(received[1]?.url).toContain('after=c-1');
  });

  it('an empty page', async () => {
    const { client } = await serve(json({ object: 'list', data: [], has_more: false, first_id: null }));
    const empty = { object: 'list', data: [], has_more: false, first_id: '', last_id: '' };
    expect(await client.models.list()).toEqual(empty);
  });

  it('a job with other states and date formats', async () => {
    const job = { id: 'j-1', status: 'pending', created_at: '2026-11-21T00:00:00+00:00', ended_at: null };
    const { client } = await serve(
      json({ id: 'j-1' }),
      json({ ...job, resolved_config: 'default', step: 1.5 }),
    );
    expect(await client.trainingJobs.create({ model_id: uuid(1), trajectory_groups: [] })).toEqual({
      id: 'j-1',
    });
    expect(await client.trainingJobs.get('j-1')).toEqual({
      id: 'j-1',
      created_at: '2026-11-21T00:00:00+00:00',
      ended_at: null,
    });
  });

  it('events with fewer fields', async () => {
    const data = [
      { id: 'e-1', type: 'training_started' },
      { id: 'e-2', type: 'training_started', data: { num_sequences: null, queue: 'a' } },
      { id: 'e-3', type: 'training_ended', data: null },
      { id: 'e-4', type: 'training_failed', data: {} },
      { id: 'e-5', type: 'training_failed', data: null },
      { id: 'e-6', type: 'gradient_step', data: { loss: 0.5, kl_div: null } },
    ];
    const { client } = await serve(json({ data, has_more: false }));
    const page = await client.trainingJobs.events('j-1');
    expect(page.data.map((event) => event.data)).toEqual([
      { num_sequences: null },
      { num_sequences: null, queue: 'a' },
      {},
      { error_message: 'the service gave no reason' },
      { error_message: 'the service gave no reason' },
      { loss: 0.5 },
    ]);
  });

  it('inference models with only an id', async () => {
    const { client } = await serve(json({ data: [{ id: 'big', max_model_len: 32768, root: null }] }));
    expect(await client.inferenceModels.list()).toEqual([
      { id: 'big', object: 'model', created: 0, owned_by: '', root: 'big' },
    ]);
  });

  it('a system check with other components', async () => {
    const { client } = await serve(
      json({
        status: 'up',
        api: { success: true, in_hand: 'few' },
        redis: { success: false, duration: 0.2, error: 'gone' },
      }),
      json({ status: 'up' }),
    );
    expect(await client.systemCheck()).toEqual({
      api: { success: true, duration: null, error: null },
      redis: { success: false, duration: 0.2, error: 'gone' },
    });
    await expect(client.systemCheck()).rejects.toMatchObject({ code: 'bad_response' });
  });

  it('errors of other shapes', async () => {
    const { client } = await serve(
      json({ detail: { reason: 'odd' } }, 400),
      json({ detail: [{ loc: ['body'], msg: 'bad', type: 't', url: 'https://example.com' }] }, 422),
      json({ object: 'error', message: 'gone', code: 404 }, 404),
    );
    const get = () => client.models.get('m-1');
    await expect(get()).rejects.toMatchObject({ detail: '{"detail":{"reason":"odd"}}' });
    await expect(get()).rejects.toMatchObject({ detail: 'body: bad', issues: [{ msg: 'bad' }] });
    await expect(get()).rejects.toMatchObject({ code: 'not_found', detail: 'gone' });
  });
});
