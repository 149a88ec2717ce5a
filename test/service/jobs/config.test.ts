import { describe, expect, test } from 'vitest';
import { refusedConfigFields } from '../../../src/contract/index.ts';
import { door } from '../../support/scripted-engine.ts';
import { start } from '../harness.ts';
import { groups, rl } from './support.ts';

/** A service with a model, and a function that creates a job on it. */
async function prepared() {
  const service = await start();
  const model = await service.createModel();
  const post = (config: object) =>
    service.call('POST', rl, { model_id: model.id, trajectory_groups: groups, experimental_config: config });
  return { ...service, model, post };
}

describe('the config of an RL job', () => {
  test.each([
    ...refusedConfigFields.map((name) => [{ [name]: 1 }, name, 'unsupported_field'] as const),
    [{ plot_tensors: true }, 'plot_tensors', 'unsupported_field'],
    [{ learning_rat: 1 }, 'learning_rat', 'extra_forbidden'],
    [{ learning_rate: -1 }, 'learning_rate', 'greater_than'],
    [{ kimi_k2_tau: 1, vendor_k2_tau: 1 }, 'kimi_k2_tau', 'unsupported_field'],
    [{ importance_sampling_level: 'batch' }, 'importance_sampling_level', 'literal_error'],
    [{ loss_fn: 'dro' }, 'loss_fn', 'literal_error'],
    [{ truncated_importance_sampling: 0 }, 'truncated_importance_sampling', 'greater_than'],
    [{ kl_penalty_coef: -1 }, 'kl_penalty_coef', 'greater_than_equal'],
    [{ kl_penalty_coef: 1, kl_penalty_source: 'teacher' }, 'kl_penalty_source', 'literal_error'],
    [{ kl_penalty_reference_step: 0 }, 'kl_penalty_reference_step', 'value_error'],
    [{ kl_penalty_coef: 1, kl_penalty_reference_step: 4 }, 'kl_penalty_reference_step', 'value_error'],
    [{ kl_penalty_step_lag: 1 }, 'kl_penalty_step_lag', 'value_error'],
    [{ kl_penalty_coef: 1, kl_penalty_step_lag: 0 }, 'kl_penalty_step_lag', 'greater_than_equal'],
    [{ kl_penalty_coef: 1, kl_penalty_step_lag: 1.5 }, 'kl_penalty_step_lag', 'int_type'],
    [
      { kl_penalty_coef: 1, kl_penalty_reference_step: 0, kl_penalty_step_lag: 1 },
      'kl_penalty_step_lag',
      'value_error',
    ],
    [{ ppo: false, loss_fn: 'ppo' }, 'loss_fn', 'value_error'],
    [{ normalize_advantages: 'yes' }, 'normalize_advantages', 'bool_type'],
  ] as const)('%j is refused by name', async (config, name, type) => {
    const { post } = await prepared();
    const { status, body } = await post(config);
    expect(status).toBe(422);
    expect([body.detail[0].loc, body.detail[0].type]).toEqual([['body', 'experimental_config', name], type]);
  });

  test('a refused field is accepted with a value without effect', async () => {
    const { post } = await prepared();
    const { status } = await post({
      allow_training_without_logprobs: false,
      plot_tensors: false,
      scale_learning_rate_by_reward_std_dev: false,
      num_trajectories_learning_rate_multiplier_power: 0,
    });
    expect(status).toBe(200);
  });

  test('a contradiction names both fields', async () => {
    const { post } = await prepared();
    const { body } = await post({ ppo: true, loss_fn: 'cispo' });
    expect(body.detail).toHaveLength(1);
    expect(body.detail[0].msg).toMatch(/loss_fn "cispo" contradicts ppo true/);
  });

  test('null means absent in every field, refused ones too, and the job shows every default', async () => {
    const { call, post, follow, engine } = await prepared();
    const plain = await post({});
    await follow(plain.body.id);
    const shown = async (id: string) => (await call('GET', `${rl}/${id}`)).body.resolved_config;
    const defaults = await shown(plain.body.id);
    expect(defaults).toEqual({
      learning_rate: 1e-3,
      advantage_balance: 0,
      scale_rewards: true,
      normalize_advantages: false,
      ppo: false,
      loss_fn: 'cispo',
      epsilon: 1,
      epsilon_high: 4,
      mask_prob_ratio: false,
      max_negative_advantage_importance_sampling_weight: null,
      vendor_k2_tau: 0,
      precalculate_logprobs: false,
      importance_sampling_level: 'token',
      truncated_importance_sampling: null,
      kl_penalty_coef: 0,
      kl_penalty_reference_step: null,
      kl_penalty_step_lag: null,
      kl_penalty_reference_model: null,
      kl_penalty_source: 'current_learner',
      entropy_coefficient: 0,
    });
    const names = [...Object.keys(defaults), ...refusedConfigFields, 'kimi_k2_tau'];
    const nulls = await post(Object.fromEntries(names.map((name) => [name, null])));
    await follow(nulls.body.id);
    expect(await shown(nulls.body.id)).toEqual(defaults);
    expect(engine.trained[1]?.loss).toEqual(engine.trained[0]?.loss);
    expect(engine.trained.map(({ reference }) => reference)).toEqual([null, null]);
  });

  test('the reference of the KL penalty is the base model, or the given step', async () => {
    const { call, post, follow, engine, model } = await prepared();
    await follow((await post({})).body.id);
    const config = { kl_penalty_coef: 0.1, kl_penalty_source: 'sample' };
    await follow((await post(config)).body.id);
    const named = await post({ ...config, kl_penalty_reference_step: 1 });
    await follow(named.body.id);
    expect(engine.trained.map(({ reference }) => reference?.folder?.split('/').at(-1) ?? reference)).toEqual([
      null,
      { baseModel: model.base_model, folder: null },
      'step-1',
    ]);
    expect(engine.trained[2]?.loss).toMatchObject({ klPenalty: { coefficient: 0.1, source: 'sample' } });
    const { body } = await call('GET', `${rl}/${named.body.id}`);
    expect(body.resolved_config).toMatchObject({ ...config, kl_penalty_reference_step: 1 });
  });

  test('the reference may be a number of steps before the job’s first checkpoint, at least step 0', async () => {
    const { call, post, follow, engine } = await prepared();
    const lagging = { kl_penalty_coef: 0.1, kl_penalty_step_lag: 2 };
    const held = door();
    engine.hold = held.wait;
    const jobs = [await post({})];
    await held.reached;
    // They wait together: the first checkpoint of each is known when it starts.
    for (let count = 0; count < 3; count++) jobs.push(await post(lagging));
    held.open();
    for (const job of jobs) await follow(job.body.id);
    expect(
      engine.trained.map(({ reference }) => reference && (reference.folder?.split('/').at(-1) ?? 0)),
    ).toEqual([null, 0, 0, 'step-1']);
    const { body } = await call('GET', `${rl}/${jobs[3]?.body.id}`);
    expect(body.resolved_config).toMatchObject({ kl_penalty_step_lag: 2, kl_penalty_reference_step: null });
  });

  test('a lag to a deleted checkpoint is refused, or fails a waiting job, by name', async () => {
    const { call, post, follow, engine, model } = await prepared();
    for (let count = 0; count < 3; count++) await follow((await post({})).body.id);
    await call('DELETE', `/v1/preview/models/${model.id}/checkpoints`, { steps: [1, 2] });
    const refused = await post({ kl_penalty_coef: 0.1, kl_penalty_step_lag: 2 });
    expect([refused.status, refused.body.detail[0].loc.at(-1)]).toEqual([422, 'kl_penalty_step_lag']);
    expect(refused.body.detail[0].msg).toMatch(/step 1\b.*step 3/);
    const held = door();
    engine.hold = held.wait;
    const before = await post({});
    await held.reached;
    const waiting = await post({ kl_penalty_coef: 0.1, kl_penalty_step_lag: 2 });
    held.open();
    await follow(before.body.id);
    expect((await follow(waiting.body.id)).at(-1)).toMatchObject({
      type: 'training_failed',
      data: { error_message: expect.stringMatching(/^kl_penalty_step_lag: .*step 4.* is step 2\b/) },
    });
  });

  test('a reference that is deleted while the job waits fails the job by name', async () => {
    const { call, post, follow, engine, model } = await prepared();
    await follow((await post({})).body.id);
    await follow((await post({})).body.id);
    const held = door();
    engine.hold = held.wait;
    const before = await post({});
    await held.reached;
    const waiting = await post({ kl_penalty_coef: 0.1, kl_penalty_reference_step: 1 });
    await call('DELETE', `/v1/preview/models/${model.id}/checkpoints`, { steps: [1] });
    held.open();
    await follow(before.body.id);
    expect((await follow(waiting.body.id)).at(-1)).toMatchObject({
      type: 'training_failed',
      data: { error_message: expect.stringMatching(/^kl_penalty_reference_step: .* step 1 was deleted/) },
    });
  });
});
