import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { trainingEventSchema, trainingJobSchema } from '../../../src/contract/index.ts';
import { special, tokensOf } from '../../support/scripted-engine.ts';
import { choice, group, start, trajectory } from '../harness.ts';
import { groups, rl, sampled, sft, unknown } from './support.ts';

const { assistant, end, callEnd, tool } = special;

describe('RL jobs', () => {
  test('a job trains one step over the batch, and its checkpoint is listed when it has ended', async () => {
    const { call, createModel, follow, engine, dataFolder } = await start();
    const model = await createModel();
    const created = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [...groups, group(trajectory(3, sampled), trajectory(3, sampled))],
      experimental_config: { kimi_k2_tau: 0.5, epsilon_high: null, ppo: null, plot_tensors: null },
    });
    expect(created.status).toBe(200);
    const events = await follow(created.body.id);
    for (const event of events) trainingEventSchema.parse(event);
    expect(events.map(({ type }) => type)).toEqual(['training_started', 'gradient_step', 'training_ended']);
    expect(events[0].data).toEqual({ num_sequences: 1 });
    expect(events[1].data).toEqual({
      ...{ loss: 1, grad_norm: 0.5, learning_rate: 1e-3, num_credited_choices: 0 },
      num_constrained_choices: 0,
      ...{ num_groups_submitted: 2, num_groups_trainable: 1, num_groups_without_signal: 1 },
      ...{ num_trajectories: 4, num_trainable_tokens: 8 },
      ...{ num_datums: 2, train_tokens: 18, reward: 1.75, reward_std_dev: 0.25 },
    });
    expect(events[2].data.step).toBe(1);
    const job = (await call('GET', `${rl}/${created.body.id}`)).body;
    expect(trainingJobSchema.parse(job)).toMatchObject({
      ...{
        id: created.body.id,
        model_id: model.id,
        kind: 'rl',
        status: 'succeeded',
        step: 1,
        error_message: null,
      },
      resolved_config: { vendor_k2_tau: 0.5, learning_rate: 1e-3, epsilon: 1, epsilon_high: 4, ppo: false },
    });
    const checkpoints = (await call('GET', `/v1/preview/models/${model.id}/checkpoints?order=desc`)).body;
    expect(checkpoints.data[0]).toEqual({
      id: events[2].data.checkpoint_id,
      step: 1,
      metrics: events[1].data,
    });
    expect(
      await readFile(join(dataFolder, 'models', model.id, 'checkpoints', 'step-1', 'weights'), 'utf8'),
    ).toBe('base + 1');
    expect(engine.trained[0]).toMatchObject({
      learningRate: 1e-3,
      loss: { type: 'cispo', tau: 0.5, epsilonHigh: 4 },
    });
    await expect.poll(() => readdirSync(join(dataFolder, 'jobs'))).toEqual([]);
  });

  test('exactly the sampled tokens are in spans, with their distribution', async () => {
    const { call, chat, createModel, follow, engine } = await start();
    const model = await createModel();
    const wide = 260;
    const first = [wide, ...tokensOf(special.call, 'f{}', callEnd, end)];
    engine.replies = [{ tokens: first }];
    const tools = [{ type: 'function', function: { name: 'f' } }];
    const answer = await chat({ tools, temperature: 0.7, top_k: 5, logprobs: true, return_token_ids: true });
    const second = tokensOf('done', end);
    const third = tokensOf('cut off');
    const trained = {
      messages_and_choices: [
        { role: 'user', content: 'hi' },
        answer.body.choices[0],
        { role: 'tool', content: 'ok', tool_call_id: 'c' },
        choice(second, { logprobs: null, sampling: null }),
        { role: 'user', content: 'trailing context trains nothing' },
      ],
      tools,
      additional_histories: [
        { messages_and_choices: [{ role: 'assistant', content: 'said', token_ids: null }, choice(third)] },
        { messages_and_choices: [{ role: 'user', content: 'no choice here' }] },
      ],
      reward: 1,
    };
    const job = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [group(trained, trajectory(0, sampled))],
    });
    await follow(job.body.id);
    const [main, other] = engine.trained[0]?.datums ?? [];
    expect(main?.tokens).toEqual([
      ...(engine.requests[0]?.prompt ?? []),
      ...first,
      ...tokensOf(tool, 'ok', end, assistant),
      ...second,
    ]);
    const [one, two] = main?.spans ?? [];
    expect(main?.tokens.slice(one?.start, (one?.start ?? 0) + (one?.length ?? 0))).toEqual(first);
    expect(main?.tokens.slice(two?.start, (two?.start ?? 0) + (two?.length ?? 0))).toEqual(second);
    expect(one).toMatchObject({
      logprobs: first.map((_, index) => -(index + 1) / 8),
      sampling: { temperature: 0.7, topP: 1, topK: 5, minP: 0 },
      constraint: engine.requests[0]?.constraint,
    });
    expect(one?.constraint).not.toBeNull();
    expect(two).toMatchObject({
      logprobs: second.map(() => null),
      sampling: { temperature: 1, topP: 1, topK: 0, minP: 0 },
      constraint: null,
    });
    expect(other?.tokens).toEqual(tokensOf(assistant, 'said', end, assistant, 'cut off'));
    expect(other?.spans).toMatchObject([
      { start: 7, length: third.length, logprobs: [-1, -2, -3, -4, -5, -6, -7] },
    ]);
    expect(one?.advantage).toBeCloseTo(1, 4);
    const weights = (engine.trained[0]?.datums ?? []).flatMap(({ spans }) =>
      spans.map((s) => s.weight * s.length),
    );
    expect(weights.reduce((sum, weight) => sum + weight, 0)).toBeCloseTo(1, 10);
  });

  describe('without a signal', () => {
    const silent = [group(trajectory(1, sampled), trajectory(1, sampled)), group(trajectory(7, sampled))];

    test('ends without a gradient step or a checkpoint, with the reason', async () => {
      const { call, chat, createModel, follow, engine, log } = await start();
      const model = await createModel();
      const checkpoints = `/v1/preview/models/${model.id}/checkpoints`;
      const job = await call('POST', rl, { model_id: model.id, trajectory_groups: silent });
      const events = await follow(job.body.id);
      const { body: ended } = await call('GET', `${rl}/${job.body.id}`);
      const [newest] = (await call('GET', checkpoints)).body.data;
      expect(ended).toMatchObject({
        ...{ status: 'succeeded', step: 0, error_message: null },
        untrained: {
          reason: 'no_signal',
          message: expect.stringMatching(/rewards differ in none of the 2 groups \(3 trajectories\)/),
          metrics: {
            ...{ num_groups_submitted: 2, num_groups_trainable: 0, num_groups_without_signal: 2 },
            ...{ num_trajectories: 3, reward: 3, reward_std_dev: 0 },
          },
        },
      });
      expect(events.map(({ type, data }) => ({ type, data }))).toEqual([
        { type: 'training_started', data: { num_sequences: 0 } },
        {
          type: 'training_ended',
          data: { step: 0, checkpoint_id: newest.id, untrained: ended.untrained },
        },
      ]);
      expect((await call('GET', checkpoints)).body.data).toEqual([newest]);
      expect(engine.trained).toEqual([]);
      const logged = { event: 'job_untrained', job: job.body.id, reason: 'no_signal' };
      await expect.poll(() => log).toContainEqual(expect.objectContaining(logged));
      expect((await chat({ model: 'local/desk/agent' })).body.model).toBe('local/desk/agent:step0');
    });

    test('lets later jobs of the model run', async () => {
      const { call, createModel, follow, engine } = await start();
      const model = await createModel();
      const jobs = [];
      for (const trajectory_groups of [groups, silent, groups])
        jobs.push((await call('POST', rl, { model_id: model.id, trajectory_groups })).body.id);
      const steps = [];
      for (const id of jobs) steps.push((await follow(id)).at(-1).data.step);
      expect([steps, engine.trained.length]).toEqual([[1, 1, 2], 2]);
    });

    test('names the cause if no token of trajectories with different rewards was a decision', async () => {
      const { call, createModel, follow } = await start();
      const model = await createModel();
      const content = sampled.map(() => ({ token: '', logprob: 0 }));
      const forced = (reward: number) => ({
        messages_and_choices: [choice(sampled, { logprobs: { content } })],
        reward,
      });
      const job = await call('POST', rl, {
        model_id: model.id,
        trajectory_groups: [group(forced(1), forced(0))],
      });
      expect((await follow(job.body.id)).at(-1).data.untrained).toMatchObject({ reason: 'no_decisions' });
    });

    test('does not claim that there are no decisions if the only ones are in a reply of mean reward', async () => {
      const { call, createModel, follow } = await start();
      const model = await createModel();
      const forced = { logprobs: { content: sampled.map(() => ({ token: '', logprob: 0 })) } };
      const job = await call('POST', rl, {
        model_id: model.id,
        trajectory_groups: [
          group(
            { messages_and_choices: [choice(sampled, forced)], reward: 0 },
            { messages_and_choices: [choice(sampled)], reward: 1 },
            { messages_and_choices: [choice(sampled, forced)], reward: 2 },
          ),
        ],
      });
      expect((await follow(job.body.id)).at(-1).data.untrained).toMatchObject({
        reason: 'no_decisions',
        message: expect.stringContaining('no token of a reply with an advantage'),
      });
    });

    test('ends in the same way if every rollout failed', async () => {
      const { call, createModel, follow } = await start();
      const model = await createModel();
      const job = await call('POST', rl, { model_id: model.id, trajectory_groups: [group()] });
      expect((await follow(job.body.id)).at(-1)).toMatchObject({
        type: 'training_ended',
        data: { untrained: { reason: 'no_signal', metrics: { num_trajectories: 0 } } },
      });
    });

    test('fails if no message was sampled, because nothing in it can train', async () => {
      const { call, createModel, follow } = await start();
      const model = await createModel();
      const messages_and_choices = [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: 'hello' },
      ];
      const trajectories = [1, 0].map((reward) => ({ messages_and_choices, reward }));
      const job = await call('POST', rl, { model_id: model.id, trajectory_groups: [{ trajectories }] });
      expect((await follow(job.body.id)).at(-1)).toMatchObject({
        type: 'training_failed',
        data: { error_message: expect.stringMatching(/none of the 2 trajectories has a choice/) },
      });
      expect((await call('GET', `${rl}/${job.body.id}`)).body).toMatchObject({
        status: 'failed',
        step: null,
      });
    });
  });

  test('unknown jobs, and jobs of unknown models, are a 404', async () => {
    const { call } = await start();
    for (const [method, path, body] of [
      ['POST', rl, { model_id: unknown, trajectory_groups: groups }],
      ['GET', `${rl}/${unknown}`],
      ['GET', `${rl}/${unknown}/events`],
      ['POST', `${rl}/${unknown}/cancel`, {}],
      ['POST', `/v1/preview/models/${unknown}/log`, { split: 'train', trajectory_groups: [] }],
      ['POST', sft, { model_id: unknown, training_data_url: 'upload:x' }],
    ] as const) {
      const answer = await call(method, path, body);
      expect([method, path, answer.status, typeof answer.body.detail]).toEqual([method, path, 404, 'string']);
    }
    expect((await call('POST', rl, { model_id: 'x', trajectory_groups: groups })).body.detail[0].loc).toEqual(
      ['body', 'model_id'],
    );
  });
});

describe('a choice in a client’s own format', () => {
  // As the vendor's client serializes its objects, with and without `exclude_none`.
  const bare = { token: 'a', logprob: -1, bytes: null, top_logprobs: null };
  test.each([
    [
      'with null for absent fields',
      { content: 'yes', tool_calls: null, refusal: null, function_call: null },
      { content: sampled.map(() => bare), refusal: null },
    ],
    ['without absent fields', {}, {}],
  ])('%s is accepted', async (_, message, logprobs) => {
    const { call, createModel } = await start();
    const model = await createModel();
    const dumped = choice(sampled, { message: { role: 'assistant', ...message }, logprobs });
    const messages_and_choices = [{ role: 'user', content: 'hi' }, dumped];
    const trajectories = [
      { messages_and_choices, reward: 1 },
      { messages_and_choices, reward: 0 },
    ];
    const { status, body } = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [{ trajectories }],
    });
    expect([status, body]).toEqual([200, { id: expect.any(String) }]);
  });
});
