import { expect, test } from 'vitest';
import { chatCompletionSchema } from '../../../src/contract/index.ts';
import { door, ScriptedEngine, special, tokensOf } from '../../support/scripted-engine.ts';
import { frames, group, start, trajectory } from '../harness.ts';

test('a plain reply matches the contract, with its sampling and the name of the weights', async () => {
  const { chat, engine } = await start();
  const { status, body } = await chat({
    model: 'scripted-tiny',
    temperature: null,
    request_id: 'r1',
    user: 'u',
  });
  expect(status).toBe(200);
  expect(chatCompletionSchema.parse(body)).toEqual(body);
  expect(body).toMatchObject({
    id: 'chatcmpl-r1',
    object: 'chat.completion',
    model: 'scripted-tiny',
    system_fingerprint: expect.stringMatching(/^fp_[0-9a-f]{12}$/),
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'hello', refusal: null },
        finish_reason: 'stop',
        stop_reason: null,
        logprobs: null,
        sampling: { temperature: 1, top_p: 1, top_k: 0, min_p: 0, constraint: null },
      },
    ],
    usage: {
      prompt_tokens: 5,
      completion_tokens: 6,
      total_tokens: 11,
      prompt_tokens_details: { cached_tokens: 3 },
    },
  });
  for (const field of ['token_ids', 'prompt_token_ids']) expect(body.choices[0]).not.toHaveProperty(field);
  for (const field of ['prompt_token_ids', 'prompt_logprobs', 'service_tier'])
    expect(body).not.toHaveProperty(field);
  expect(engine.requests[0]).toMatchObject({
    prompt: tokensOf(special.user, 'hi', special.end, special.assistant),
    constraint: null,
    maxTokens: 512 - 5,
    weights: { baseModel: 'scripted-tiny', folder: null },
  });
});

test('log-probabilities and token ids are returned on request, one for each token', async () => {
  const { chat } = await start();
  const { body } = await chat({ logprobs: true, top_logprobs: 1, return_token_ids: true });
  const [choice] = body.choices;
  expect(choice.token_ids).toEqual(tokensOf('hello', special.end));
  expect(body.prompt_token_ids).toEqual(tokensOf(special.user, 'hi', special.end, special.assistant));
  expect(choice.logprobs.content).toHaveLength(6);
  expect(choice.logprobs.content[0]).toEqual({
    token: 'h',
    logprob: -0.125,
    bytes: [104],
    top_logprobs: [{ token: 'h', logprob: -0.125, bytes: [104] }],
  });
  expect(choice.logprobs.content[5]).toMatchObject({ token: '<|end|>', bytes: [] });
});

test('a reply that is cut off has finish_reason length', async () => {
  const { chat } = await start();
  const { body } = await chat({ max_tokens: 3 });
  expect(body.choices[0]).toMatchObject({ message: { content: 'hel' }, finish_reason: 'length' });
});

test('the newest checkpoint answers, or the pinned one; an unknown name is a 404, never the base model', async () => {
  const { chat, call, createModel, follow, engine, dataFolder } = await start();
  const model = await createModel();
  expect((await chat({ model: 'local/desk/agent' })).body.model).toBe('local/desk/agent:step0');
  const tokens = tokensOf('yes', special.end);
  const job = await call('POST', '/v1/preview/training-jobs', {
    model_id: model.id,
    trajectory_groups: [group(trajectory(1, tokens), trajectory(0, tokens))],
  });
  await follow(job.body.id);
  expect((await chat({ model: 'wandb-artifact:///local/desk/agent' })).body.model).toBe(
    'local/desk/agent:step1',
  );
  expect(engine.requests.at(-1)?.weights).toEqual({
    baseModel: 'scripted-tiny',
    folder: `${dataFolder}/models/${model.id}/checkpoints/step-1`,
  });
  expect((await chat({ model: 'local/desk/agent:step0' })).body.model).toBe('local/desk/agent:step0');
  const callsBefore = engine.requests.length;
  for (const name of ['local/desk/agent:step9', 'local/desk/other', 'gpt-9', '']) {
    const { status, body } = await chat({ model: name });
    expect([name, status]).toEqual([name, 404]);
    expect(body.error).toMatchObject({ type: 'not_found_error', code: 'model_not_found' });
    expect(body.detail).toContain(JSON.stringify(name));
  }
  expect(engine.requests).toHaveLength(callsBefore);
  await call('DELETE', `/v1/preview/models/${model.id}`);
  expect((await chat({ model: 'local/desk/agent' })).status).toBe(404);
});

test('a client that disconnects stops its generation', async () => {
  const engine = new ScriptedEngine();
  const { service } = await start({ engine });
  const held = door();
  engine.hold = held.wait;
  const leave = new AbortController();
  const pending = fetch(`${service.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: 'Bearer test-key' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hi' }] }),
    signal: leave.signal,
  });
  await held.reached;
  const stopped = new Promise((resolve) => engine.requests[0]?.signal?.addEventListener('abort', resolve));
  leave.abort();
  await expect(pending).rejects.toThrow();
  await stopped;
});

test('the fingerprint depends on engine and base model, not on the request', async () => {
  const [first, second] = [await start(), await start()];
  const fingerprints = [
    (await first.chat({})).body.system_fingerprint,
    (await first.chat({ temperature: 0.5, n: 2 })).body.system_fingerprint,
    (await second.chat({})).body.system_fingerprint,
  ];
  expect(new Set(fingerprints).size).toBe(1);
});

test('logprobs contain ids instead of texts on request', async () => {
  const { chat } = await start();
  const { body } = await chat({ logprobs: true, top_logprobs: 1, return_tokens_as_token_ids: true });
  expect(body.choices[0].logprobs.content[0]).toEqual({
    token: 'token_id:104',
    logprob: -0.125,
    bytes: [104],
    top_logprobs: [{ token: 'token_id:104', logprob: -0.125, bytes: [104] }],
  });
  expect(body.choices[0].logprobs.content[5].token).toBe(`token_id:${special.end}`);
});

test('a request without an id gets a new one each time', async () => {
  const { chat } = await start();
  const [first, second] = [await chat({}), await chat({})];
  expect(first.body.id).toMatch(/^chatcmpl-[0-9a-f-]{36}$/);
  expect(first.body.id).not.toBe(second.body.id);
});

test('the log names the caller with the id of the request', async () => {
  const { chat, log } = await start();
  const hints = { safety_identifier: 'a1b2', prompt_cache_key: 'desk' };
  await chat({ request_id: 'r7', user: 'ann', ...hints, metadata: { run: 'x' }, store: false, n: 2 });
  expect(log).toContainEqual({
    level: 'info',
    event: 'chat_requested',
    ...hints,
    ...{ id: 'chatcmpl-r7', model: 'scripted-tiny', choices: 2, user: 'ann', metadata: '{"run":"x"}' },
  });
});

test('the service tier is returned if the request has one', async () => {
  const { chat, raw } = await start();
  const tier = { service_tier: 'auto' };
  expect((await chat(tier)).body.service_tier).toBe('default');
  const response = await raw('POST', '/v1/chat/completions', {
    messages: [{ role: 'user', content: 'hi' }],
    ...{ ...tier, stream: true },
  });
  expect(frames(await response.text()).map((chunk) => chunk.service_tier)).not.toContain(undefined);
});

test('the log-probabilities of the prompt have the format of vLLM', async () => {
  const { chat, engine } = await start();
  const { status, body } = await chat({ prompt_logprobs: 1 });
  expect(status).toBe(200);
  expect(chatCompletionSchema.parse(body)).toEqual(body);
  expect(engine.scored).toMatchObject([{ prompt: engine.requests[0]?.prompt, top: 1 }]);
  expect(body.prompt_logprobs).toHaveLength(5);
  expect(body.prompt_logprobs.slice(0, 3)).toEqual([
    null,
    {
      65: { logprob: -0.1, rank: 1, decoded_token: 'A' },
      104: { logprob: -Math.LN2, rank: 2, decoded_token: 'h' },
    },
    {
      65: { logprob: -0.1, rank: 1, decoded_token: 'A' },
      105: { logprob: -2 * Math.LN2, rank: 2, decoded_token: 'i' },
    },
  ]);
  expect(body.prompt_logprobs[3][special.end].decoded_token).toBe('<|end|>');
  const bare = (await chat({ prompt_logprobs: 0 })).body.prompt_logprobs;
  expect(bare[1]).toEqual({ 104: { logprob: -Math.LN2, rank: 2, decoded_token: 'h' } });
});

test('a choice with its own prompt is marked, and carries the prompt if ids are requested', async () => {
  const { chat } = await start();
  const own = (await chat({ add_special_tokens: true, return_token_ids: true })).body;
  expect(own.prompt_token_ids[0]).toBe(special.begin);
  expect(own.choices[0]).toMatchObject({
    prompt_token_ids: own.prompt_token_ids,
    sampling: { own_prompt: true },
  });
  const bare = (await chat({ add_special_tokens: true })).body;
  expect(bare.choices[0].sampling.own_prompt).toBe(true);
  expect(bare.choices[0]).not.toHaveProperty('prompt_token_ids');
  const plain = (await chat({ return_token_ids: true })).body.choices[0];
  expect(plain.sampling).not.toHaveProperty('own_prompt');
  expect(plain.prompt_token_ids).toEqual(own.prompt_token_ids.slice(1));
});
