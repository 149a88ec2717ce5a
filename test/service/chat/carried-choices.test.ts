import { describe, expect, test } from 'vitest';
import { chatCompletionChunkSchema, chatCompletionSchema } from '../../../src/contract/index.ts';
import { ScriptedEngine, special, tokensOf } from '../../support/scripted-engine.ts';
import { frames, type Json, start } from '../harness.ts';

const { user, assistant, end } = special;
const reply = tokensOf('hello', end);
const trained = 'local/desk/agent';
const ask = { role: 'user', content: 'hi' };
const rl = '/v1/preview/training-jobs';

async function opened(engine = new ScriptedEngine()) {
  const service = await start({ engine });
  const model = await service.createModel();
  const streamed = async (fields: object): Promise<Json[]> => {
    const response = await service.raw('POST', '/v1/chat/completions', {
      ...{ model: trained, messages: [ask], stream: true },
      ...fields,
    });
    const chunks = frames(await response.text());
    for (const chunk of chunks) chatCompletionChunkSchema.parse(chunk);
    return chunks;
  };
  /** Creates a job in which one history with these choices is rewarded and another one is not. */
  const train = (messages_and_choices: object[]) =>
    service.call('POST', rl, {
      model_id: model.id,
      trajectory_groups: [{ trajectories: [1, 0].map((reward) => ({ messages_and_choices, reward })) }],
    });
  const trainedOn = async (messages_and_choices: object[]) => {
    const { status, body } = await train(messages_and_choices);
    expect([status, body.detail]).toEqual([200, undefined]);
    expect((await service.follow(body.id)).at(-1)).toMatchObject({ type: 'training_ended' });
    return engine.trained.at(-1)?.datums ?? [];
  };
  return { ...service, engine, model, streamed, train, trainedOn };
}

/** A choice assembled by a reader that keeps known fields: ART's, and the helpers of the openai clients. */
function joined(chunks: readonly Json[]): Json {
  const choices = chunks.flatMap((chunk) => chunk.choices);
  return {
    index: 0,
    finish_reason: choices.at(-1)?.finish_reason ?? 'stop',
    message: { role: 'assistant', content: choices.map(({ delta }) => delta.content ?? '').join('') },
    logprobs: { content: choices.flatMap(({ logprobs }) => logprobs?.content ?? []) },
  };
}

describe('a choice of a trained model', () => {
  test('carries the data for training by default', async () => {
    const { chat, trainedOn } = await opened();
    const { body } = await chat({ model: trained, temperature: 0.5 });
    expect(chatCompletionSchema.parse(body)).toEqual(body);
    const [choice] = body.choices;
    expect(choice).toMatchObject({
      token_ids: reply,
      sampling: { temperature: 0.5, prompt: expect.any(String), reply: expect.any(String) },
    });
    expect(choice.logprobs.content[0]).toEqual({
      token: 'h',
      logprob: -0.125,
      bytes: [104],
      top_logprobs: [],
    });
    expect(choice.logprobs.content).toHaveLength(6);
    expect(body).not.toHaveProperty('prompt_token_ids');
    expect(choice.prompt_token_ids).toEqual(tokensOf(user, 'hi', end, assistant));
    const [datum] = await trainedOn([ask, choice]);
    expect(datum?.tokens).toEqual(tokensOf(user, 'hi', end, assistant, 'hello', end));
    expect(datum?.spans).toMatchObject([
      { sampling: { temperature: 0.5 }, logprobs: reply.map((_, index) => -(index + 1) / 8) },
    ]);
  });

  test('carries its prompt if earlier replies were sent back as text', async () => {
    const { chat, trainedOn, engine } = await opened();
    // Two bytes in one token: their text encodes to two.
    engine.replies = [{ tokens: [260, end] }, { tokens: reply }];
    const first = (await chat({ model: trained })).body.choices[0];
    const messages = [ask, { role: 'assistant', content: first.message.content }, ask];
    const second = (await chat({ model: trained, messages })).body.choices[0];
    expect(second.prompt_token_ids).toEqual(engine.requests.at(-1)?.prompt);
    const datums = await trainedOn([ask, first, ask, second]);
    expect(datums.slice(0, 2).map(({ tokens }) => tokens)).toEqual([
      [...tokensOf(user, 'hi', end, assistant), 260, end],
      [...(engine.requests.at(-1)?.prompt ?? []), ...reply],
    ]);
  });

  test.each([
    ['return_token_ids: false', { return_token_ids: false }, { token_ids: false, logprobs: false }],
    ['logprobs: false', { logprobs: false }, { token_ids: true, logprobs: false }],
    ['both', { logprobs: true, return_token_ids: true }, { token_ids: true, logprobs: true }],
    ['return_token_ids: true alone', { return_token_ids: true }, { token_ids: true, logprobs: false }],
  ])('has the requested fields with %s', async (_, fields, has) => {
    const { chat, streamed } = await opened();
    const { body } = await chat({ model: trained, ...fields });
    const [choice] = body.choices;
    expect([choice.token_ids ?? null, choice.logprobs === null]).toEqual([
      has.token_ids ? reply : null,
      !has.logprobs,
    ]);
    if (has.logprobs) expect(choice.logprobs.content[0].bytes).toEqual([104]);
    const choices = (await streamed(fields)).flatMap((chunk) => chunk.choices);
    expect(choices.flatMap(({ token_ids }) => token_ids ?? [])).toEqual(has.token_ids ? reply : []);
    const entries = choices.flatMap(({ logprobs }) => logprobs?.content ?? []);
    expect(entries).toHaveLength(has.logprobs ? reply.length : 0);
    for (const entry of entries) expect(entry).not.toHaveProperty('token_id');
  });

  test('of a base model has only the requested fields', async () => {
    const { chat, streamed } = await opened();
    const { body } = await chat({});
    expect(body.choices[0].logprobs).toBeNull();
    expect(body.choices[0]).not.toHaveProperty('token_ids');
    const choices = (await streamed({ model: 'scripted-tiny' })).flatMap((chunk) => chunk.choices);
    for (const choice of choices)
      for (const name of ['logprobs', 'token_ids']) expect(choice).not.toHaveProperty(name);
  });
});

describe('a streamed choice of a trained model', () => {
  test('carries the data in its log-probabilities, which stream readers keep', async () => {
    const { streamed, trainedOn } = await opened();
    const chunks = await streamed({ top_k: 5 });
    const choices = chunks.flatMap((chunk) => chunk.choices);
    for (const choice of choices) expect(choice).not.toHaveProperty('token_ids');
    const choice = joined(chunks);
    const [first, ...rest] = choice.logprobs.content;
    expect(first).toMatchObject({ token: 'h', token_id: 104, choice: { sampling: { top_k: 5 } } });
    expect(rest.map((entry: Json) => [entry.token_id, 'choice' in entry])).toEqual(
      reply.slice(1).map((token) => [token, false]),
    );
    const [datum] = await trainedOn([ask, choice]);
    expect(datum?.tokens).toEqual(tokensOf(user, 'hi', end, assistant, 'hello', end));
    expect(datum?.spans).toMatchObject([
      { sampling: { topK: 5 }, logprobs: reply.map((_, i) => -(i + 1) / 8) },
    ]);
  });

  test('carries its prompt there if earlier replies were sent back as text', async () => {
    const { chat, streamed, trainedOn, engine } = await opened();
    engine.replies = [{ tokens: [260, end] }, { tokens: reply }];
    const first = (await chat({ model: trained })).body.choices[0];
    const second = joined(await streamed({ messages: [ask, { role: 'assistant', content: 'ab' }, ask] }));
    const prompt = engine.requests.at(-1)?.prompt ?? [];
    expect(second.logprobs.content[0].choice.prompt_token_ids).toEqual(prompt);
    const datums = await trainedOn([ask, first, ask, second]);
    expect(datums[1]?.tokens).toEqual([...prompt, ...reply]);
  });

  test('trains on the received tokens if the reader stopped early', async () => {
    const { streamed, trainedOn } = await opened();
    const choice = joined(await streamed({}));
    choice.logprobs.content.splice(2);
    const [datum] = await trainedOn([ask, choice]);
    expect(datum?.tokens).toEqual(tokensOf(user, 'hi', end, assistant, 'he'));
  });
});

describe('a choice that differs from the sampled one is refused', () => {
  test('if a stream reader merged two choices', async () => {
    const { streamed, train } = await opened();
    const { status, body } = await train([ask, joined(await streamed({ n: 2 }))]);
    expect(status).toBe(422);
    expect(body.detail[0].loc.slice(-3, -1)).toEqual(['logprobs', 'content']);
    expect(body.detail[0].msg).toMatch(/tokens of several replies.*n: 1/);
  });

  test('if the first tokens of a stream are missing', async () => {
    const { streamed, train } = await opened();
    const choice = joined(await streamed({}));
    choice.logprobs.content.shift();
    const { status, body } = await train([ask, choice]);
    expect([status, body.detail[0].msg]).toEqual([422, expect.stringMatching(/not the first token/)]);
  });

  test('if a reader kept only the token ids of the last chunk', async () => {
    const { streamed, train } = await opened();
    const choices = (await streamed({ return_token_ids: true })).flatMap((chunk) => chunk.choices);
    const { sampling } = choices.at(-1);
    const choice = { ...joined([]), logprobs: null, token_ids: [end], sampling };
    const { status, body } = await train([ask, choice]);
    expect([status, body.detail[0].loc.at(-1)]).toEqual([422, 'token_ids']);
    expect(body.detail[0].msg).toMatch(/not the sampled ids/);
  });

  test('if some of the ids in place of texts are missing', async () => {
    const { streamed, train } = await opened();
    const asIds = { return_token_ids: false, logprobs: true, return_tokens_as_token_ids: true };
    const chunks = await streamed(asIds);
    const choice = { ...joined(chunks), sampling: chunks.at(-1).choices[0].sampling };
    expect((await train([ask, choice])).status).toBe(200);
    choice.logprobs.content.splice(1, 1);
    const { status, body } = await train([ask, choice]);
    expect([status, body.detail[0].loc.at(-1)]).toEqual([422, 'token_ids']);
  });

  test('if its token ids are different', async () => {
    const { chat, train } = await opened();
    const [choice] = (await chat({ model: trained })).body.choices;
    const { status, body } = await train([ask, { ...choice, token_ids: tokensOf('jello', end) }]);
    expect([status, body.detail[0].loc.at(-1)]).toEqual([422, 'token_ids']);
  });
});

test('a choice with edited text trains on the sampled tokens', async () => {
  const { chat, trainedOn } = await opened();
  const [choice] = (await chat({ model: trained })).body.choices;
  const edited = { ...choice, message: { role: 'assistant', content: 'something else' } };
  const [datum] = await trainedOn([ask, edited]);
  expect(datum?.tokens).toEqual(tokensOf(user, 'hi', end, assistant, 'hello', end));
});
