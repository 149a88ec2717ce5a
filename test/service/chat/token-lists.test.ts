import { describe, expect, test } from 'vitest';
import { chatCompletionChunkSchema, chatCompletionSchema } from '../../../src/contract/index.ts';
import { ScriptedEngine, special, tokensOf } from '../../support/scripted-engine.ts';
import { frames, group, type Json, start } from '../harness.ts';

const reply = tokensOf('hello', special.end);
const ask = { role: 'user', content: 'hi' };
const logprobs = reply.map((_, index) => -(index + 1) / 8);

async function opened() {
  const engine = new ScriptedEngine();
  const service = await start({ engine });
  const model = await service.createModel();
  const chat = { model: 'local/desk/agent', messages: [ask], return_token_logprobs: true };
  const post = (fields: object) => service.call('POST', '/v1/chat/completions', { ...chat, ...fields });
  const choice = async (): Promise<Json> => (await post({})).body.choices[0];
  const train = (trained: Json) => {
    const trajectories = [1, 0].map((reward) => ({ messages_and_choices: [ask, trained], reward }));
    const body = { model_id: model.id, trajectory_groups: [group(...trajectories)] };
    return service.call('POST', '/v1/preview/training-jobs', body);
  };
  const trainedOn = async (trained: Json) => {
    const { body } = await train(trained);
    expect((await service.follow(body.id)).at(-1)).toMatchObject({ type: 'training_ended' });
    return engine.trained.at(-1)?.datums;
  };
  return { ...service, model, post, choice, train, trainedOn };
}

describe('tokens as lists', () => {
  test('stand in place of an object a token, and train the same', async () => {
    const { post, trainedOn } = await opened();
    const { body } = await post({});
    expect(chatCompletionSchema.parse(body)).toEqual(body);
    const [choice] = body.choices;
    expect(choice).toMatchObject({ logprobs: null, token_ids: reply, token_logprobs: logprobs });
    expect(choice.token_texts.slice(0, 5)).toEqual([...'hello']);
    expect(choice.token_texts).toHaveLength(reply.length);
    const [objects] = (await post({ return_token_logprobs: false })).body.choices;
    expect(objects).not.toHaveProperty('token_logprobs');
    expect(await trainedOn(choice)).toEqual(await trainedOn(objects));
  });

  test('come with each chunk of a stream', async () => {
    const { raw } = await opened();
    const request = { model: 'local/desk/agent', messages: [ask], stream: true, return_token_logprobs: true };
    const response = await raw('POST', '/v1/chat/completions', request);
    const chunks: Json[] = frames(await response.text());
    const choices = chunks.flatMap((chunk) => chatCompletionChunkSchema.parse(chunk).choices);
    const joined = (name: 'token_ids' | 'token_logprobs' | 'token_texts') =>
      choices.flatMap((choice): unknown[] => choice[name] ?? []);
    expect([joined('token_ids'), joined('token_logprobs')]).toEqual([reply, logprobs]);
    expect(joined('token_texts').slice(0, 5)).toEqual([...'hello']);
    expect(choices.filter((choice) => choice.logprobs)).toEqual([]);
  });

  test('are in stored groups, which train on them', async () => {
    const { call, choice, follow, model } = await opened();
    const trained = await choice();
    const trajectories = [1, 0].map((reward) => ({ messages_and_choices: [ask, trained], reward }));
    const stored = await call('POST', `/v1/preview/models/${model.id}/groups`, group(...trajectories));
    expect(stored.body).toMatchObject({ num_sampled_tokens: 2 * reply.length });
    const { body } = await call('POST', '/v1/preview/training-jobs', {
      ...{ model_id: model.id, groups: [stored.body.id] },
    });
    expect((await follow(body.id)).at(-1)).toMatchObject({ type: 'training_ended' });
  });

  test.each([
    ['with logprobs', { logprobs: true }, 'return_token_logprobs'],
    ['without ids', { return_token_ids: false }, 'return_token_ids'],
  ])('are refused %s', async (_, fields, name) => {
    const { status, body } = await (await opened()).post(fields);
    expect([status, body.error?.message ?? body.detail]).toEqual([422, expect.stringContaining(name)]);
  });

  const at = ['body', 'trajectory_groups', '0', 'trajectories', '0', 'messages_and_choices', '1'];
  test.each([
    ['of another length', (choice: Json) => ({ token_logprobs: choice.token_logprobs.slice(1) }), []],
    ['above 0', (choice: Json) => ({ token_logprobs: choice.token_logprobs.with(2, 0.5) }), ['2']],
    ['beside logprobs', () => ({ logprobs: { content: [] } }), []],
    [
      'that are no numbers',
      (choice: Json) => ({ token_logprobs: choice.token_logprobs.with(1, null) }),
      ['1'],
    ],
  ])('that a job cannot train on are refused by name: %s', async (_, damage, place) => {
    const { choice, train } = await opened();
    const trained = await choice();
    const { status, body } = await train({ ...trained, ...damage(trained) });
    expect([status, body.detail[0].loc]).toEqual([422, [...at, 'token_logprobs', ...place]]);
  });
});
