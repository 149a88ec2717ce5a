import { describe, expect, test } from 'vitest';
import { baseModel, special, tokensOf } from '../../support/scripted-engine.ts';
import { choice, group, start, trajectory } from '../harness.ts';
import { rl, sampled } from './support.ts';

const { user, assistant, end } = special;
const off = { temperature: 1, top_p: 1, top_k: 0, min_p: 0, constraint: null };
const sampledWith = (fields: object) => choice(sampled, { sampling: { ...off, ...fields } });
const choicePath = 'body.trajectory_groups.0.trajectories.0.messages_and_choices.0';

describe('a choice that cannot be trained on is refused by path', () => {
  const own = { sampling: { ...off, own_prompt: true } };

  test.each([
    ['no token ids', choice(sampled, { token_ids: null }), 'token_ids', /return_token_ids/],
    ['a token out of the vocabulary', choice([9999]), 'token_ids.0', /0 to 267/],
    [
      'log-probabilities of other tokens',
      choice(sampled, { logprobs: { content: [] } }),
      'logprobs.content',
      /0 entries for 4/,
    ],
    [
      'an impossible log-probability',
      choice(sampled, { logprobs: { content: sampled.map(() => ({ token: '', logprob: 5, bytes: [] })) } }),
      'logprobs.content.0.logprob',
      /above 0/,
    ],
    [
      'an unknown constraint',
      sampledWith({ constraint: 'sha256-0' }),
      'sampling.constraint',
      /nothing was sampled/,
    ],
    ['a prompt of its own that it lacks', choice(sampled, own), 'prompt_token_ids', /return_token_ids: true/],
    [
      'an empty prompt',
      choice(sampled, { ...own, prompt_token_ids: [] }),
      'prompt_token_ids',
      /at least one/,
    ],
    [
      'a prompt out of the vocabulary',
      choice(sampled, { ...own, prompt_token_ids: [1, -3] }),
      'prompt_token_ids.1',
      /0 to 267/,
    ],
    [
      'a prompt that leaves no tokens for the reply',
      choice(sampled, { ...own, prompt_token_ids: Array(baseModel.contextLength - 3).fill(1) }),
      'prompt_token_ids',
      /513 tokens.*context is 512/,
    ],
    ['beam search', sampledWith({ beam_search: true }), 'sampling.beam_search', /without use_beam_search/],
    [
      'a bias out of the vocabulary',
      sampledWith({ logit_bias: { 300: 1 } }),
      'sampling.logit_bias.300',
      /0 to/,
    ],
    [
      'foreign allowed tokens',
      sampledWith({ allowed_token_ids: [268] }),
      'sampling.allowed_token_ids.0',
      /0 to/,
    ],
    ['foreign stop tokens', sampledWith({ stop_token_ids: [-1] }), 'sampling.stop_token_ids.0', /0 to/],
    [
      'an unknown logits processor',
      sampledWith({ logits_processors: ['test.Other'] }),
      'sampling.logits_processors.0',
      /no logits processor/,
    ],
    ['a negative temperature', sampledWith({ temperature: -1 }), 'sampling.temperature', /at least 0/],
    [
      'a repetition penalty of 0',
      sampledWith({ repetition_penalty: 0 }),
      'sampling.repetition_penalty',
      /above 0/,
    ],
  ])('%s', async (_name, broken, field, reason) => {
    const { call, createModel } = await start();
    const model = await createModel();
    const { status, body } = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [group({ messages_and_choices: [broken], reward: 1 })],
    });
    expect(status).toBe(422);
    expect(body.detail[0].loc.join('.')).toBe(`${choicePath}.${field}`);
    expect(body.detail[0].msg).toMatch(reason);
  });
});

describe('a choice as other clients return it', () => {
  test('trains with the ids in place of its tokens, and without unnecessary fields', async () => {
    const { call, createModel, follow, engine } = await start();
    const model = await createModel();
    const content = sampled.map((id, index) => ({ token: `token_id:${id}`, logprob: -index - 1 }));
    const bare = { index: 0, finish_reason: 'content_filter', message: { role: 'assistant' } };
    const job = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [
        group(
          {
            messages_and_choices: [
              { role: 'user', content: 'a' },
              { ...bare, logprobs: { content } },
            ],
            reward: 1,
          },
          trajectory(0, sampled),
        ),
      ],
    });
    expect((await follow(job.body.id)).at(-1).type).toBe('training_ended');
    const [datum] = engine.trained[0]?.datums ?? [];
    expect(datum?.tokens.slice(-sampled.length)).toEqual(sampled);
    expect(datum?.spans[0]?.logprobs).toEqual([-1, -2, -3, -4]);
  });
});

describe('an unsupported field', () => {
  const history = { messages_and_choices: [{ role: 'user', content: 'a' }] };
  test.each([
    ['of a group', { ...group(trajectory(1, sampled)), notes: 'x' }, 'notes'],
    ['of a trajectory', group(trajectory(1, sampled, { notes: [{}] })), 'trajectories.0.notes'],
    [
      'of a history',
      group(trajectory(1, sampled, { additional_histories: [{ ...history, exchanges: [1] }] })),
      'trajectories.0.additional_histories.0.exchanges',
    ],
  ])('%s is refused by path', async (_name, broken, field) => {
    const { call, createModel } = await start();
    const model = await createModel();
    const { status, body } = await call('POST', rl, { model_id: model.id, trajectory_groups: [broken] });
    expect(status).toBe(422);
    expect(body.detail).toHaveLength(1);
    expect(body.detail[0].loc.join('.')).toBe(`body.trajectory_groups.0.${field}`);
  });

  test('is accepted if it has no effect', async () => {
    const { call, createModel } = await start();
    const model = await createModel();
    const empty = trajectory(1, sampled, { notes: [], summary: null });
    const answer = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [group(empty, trajectory(0, sampled))],
    });
    expect(answer.status).toBe(200);
  });
});

describe('a choice with its own prompt', () => {
  test('is a separate sequence, and context for later choices', async () => {
    const { call, createModel, follow, engine } = await start();
    const model = await createModel();
    const prompt = tokensOf(special.system, 'written otherwise', end, assistant);
    const first = tokensOf('one', end);
    const second = tokensOf('two', end);
    const mixed = {
      messages_and_choices: [
        { role: 'user', content: 'a' },
        choice(first, { sampling: { ...off, own_prompt: true }, prompt_token_ids: prompt }),
        { role: 'user', content: 'b' },
        choice(second),
      ],
      reward: 1,
    };
    // The ids alone are enough, too.
    const bare = choice(first, { prompt_token_ids: prompt });
    const alone = { messages_and_choices: [{ role: 'user', content: 'a' }, bare], reward: 0 };
    const job = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [group(mixed, alone)],
      experimental_config: { scale_rewards: false },
    });
    const events = await follow(job.body.id);
    expect(events.at(-1).type).toBe('training_ended');
    const [main, own, other, ...none] = engine.trained[0]?.datums ?? [];
    expect(none).toEqual([]);
    expect(main?.tokens).toEqual([
      ...tokensOf(user, 'a', end, assistant),
      ...first,
      ...tokensOf(user, 'b', end, assistant),
      ...second,
    ]);
    expect(main?.spans.map(({ start: at, length }) => main.tokens.slice(at, at + length))).toEqual([second]);
    for (const datum of [own, other]) {
      expect(datum?.tokens).toEqual([...prompt, ...first]);
      expect(datum?.spans).toMatchObject([
        { start: prompt.length, length: first.length, logprobs: first.map((_, index) => -index - 1) },
      ]);
    }
    // A trajectory of two sequences has the weight of one sequence.
    expect([main, own, other].map((datum) => datum?.spans[0]?.weight)).toEqual([1 / 16, 1 / 16, 1 / 8]);
    expect(events[1].data).toMatchObject({ num_datums: 3, num_trainable_tokens: 12 });
  });
});

describe('the distribution of a choice', () => {
  test('reaches the engine with all its sampling parameters', async () => {
    const { call, createModel, follow, engine } = await start();
    const model = await createModel();
    const sampling = {
      ...{ temperature: 0.7, top_p: 0.9, top_k: 5, min_p: 0.01, constraint: null },
      ...{ repetition_penalty: 1.2, frequency_penalty: 0.3, presence_penalty: -0.4 },
      ...{ logit_bias: { 65: -2 }, allowed_token_ids: [65, 66, end], bad_words: ['no'] },
      ...{ min_tokens: 2, stop_token_ids: [end], ignore_eos: true },
      ...{ logits_processors: [{ qualname: 'test.Doubling', args: [1], kwargs: { a: 2 } }] },
      engine_xargs: { more: 3 },
    };
    const messages_and_choices = [choice(sampled, { sampling })];
    const job = await call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [group({ messages_and_choices, reward: 1 }, trajectory(0, sampled))],
    });
    await follow(job.body.id);
    expect(engine.trained[0]?.datums[0]?.spans[0]?.sampling).toEqual({
      ...{ temperature: 0.7, topP: 0.9, topK: 5, minP: 0.01 },
      ...{ repetitionPenalty: 1.2, frequencyPenalty: 0.3, presencePenalty: -0.4 },
      ...{ logitBias: [[65, -2]], allowedTokens: [65, 66, end], bannedTexts: ['no'] },
      ...{ minTokens: { count: 2, barred: [end] }, ignoreEnd: true },
      processors: [{ name: 'test.Doubling', args: [1], kwargs: { a: 2 }, extra: { more: 3 } }],
    });
  });
});
