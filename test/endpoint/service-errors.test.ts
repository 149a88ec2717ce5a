import { closeEndpoints, ModelHandle } from 'martingale';
import OpenAI from 'openai';
import { afterEach, expect, test } from 'vitest';
import { RequestError, type RequestErrorCode, type RequestErrorDetails } from '../../src/client/index.ts';
import { completionsOf, name, openDesk, openRollout } from './support.ts';

afterEach(closeEndpoints);

const facts = { method: 'POST', path: '/v1/chat/completions', requestId: 'r', detail: 'said the service' };
const failed = (code: RequestErrorCode, status: number | null, details?: RequestErrorDetails) =>
  new RequestError(code, { ...facts, status }, details);
const asked = { model: 'any', messages: [{ role: 'user' as const, content: 'a' }] };

async function open(answer: () => unknown) {
  let calls = 0;
  const create = async () => {
    calls++;
    return answer();
  };
  const model = new ModelHandle({ name, completions: completionsOf(create) });
  const { endpoint, trajectory } = openRollout();
  const { baseUrl, apiKey } = await endpoint(model);
  return { client: new OpenAI({ baseURL: baseUrl, apiKey, maxRetries: 0 }), trajectory, calls: () => calls };
}

const failing = (error: Error) =>
  open(() => {
    throw error;
  });

test.each([
  [404, failed('not_found', 404)],
  [422, failed('unprocessable', 422)],
  [429, failed('rate_limited', 429)],
  [500, failed('service_failed', 500)],
  [503, failed('service_failed', 503)],
  [502, failed('connection_failed', null)],
  [504, failed('timed_out', null, { option: 'timeoutMs' })],
])('a failure of the service has status %i, whole, streamed and on both paths', async (status, error) => {
  const { client, trajectory } = await failing(error);
  const said = { status, code: error.code, message: expect.stringContaining('said the service') };
  await expect(client.chat.completions.create(asked)).rejects.toMatchObject(said);
  await expect(client.chat.completions.create({ ...asked, stream: true })).rejects.toMatchObject(said);
  await expect(client.responses.create({ model: 'any', input: 'a' })).rejects.toMatchObject(said);
  await expect(client.responses.create({ model: 'any', input: 'a', stream: true })).rejects.toMatchObject(
    said,
  );
  expect(trajectory.histories).toHaveLength(0);
});

test('a rate limit has the time to wait, and a validation error names its field', async () => {
  const limited = await failing(failed('rate_limited', 429, { retryAfterMs: 1500 }));
  const error = await limited.client.chat.completions.create(asked).catch((cause: unknown) => cause);
  if (!(error instanceof OpenAI.APIError)) throw error;
  expect(error.headers?.get('retry-after')).toBe('2');
  expect(error.headers?.get('retry-after-ms')).toBe('1500');
  expect(error.headers?.get('x-should-retry')).toBeNull();
  const issue = { loc: ['body', 'tools', '0', 'function', 'name'], msg: 'bad', type: 'x', input: '' };
  const refused = await failing(failed('unprocessable', 422, { issues: [issue] }));
  await expect(refused.client.chat.completions.create(asked)).rejects.toMatchObject({
    param: 'tools.0.function.name',
  });
});

const chunk = (delta: object, more: object = {}) => ({
  ...{ id: 'x', object: 'chat.completion.chunk', created: 0, model: name },
  choices: [{ index: 0, delta, finish_reason: null, ...more }],
});

async function* breaking() {
  yield chunk({ content: 'he' });
  throw failed('connection_failed', null);
}

test('a stream that breaks ends with an error, never with a complete reply', async () => {
  const { client, trajectory } = await open(breaking);
  const read = async () => {
    for await (const _ of await client.chat.completions.create({ ...asked, stream: true }));
  };
  await expect(read()).rejects.toMatchObject({ code: 'connection_failed' });
  const types: string[] = [];
  for await (const event of await client.responses.create({ model: 'any', input: 'a', stream: true })) {
    types.push(event.type);
    if (event.type === 'response.failed')
      expect(event.response).toMatchObject({ status: 'failed', error: { code: 'connection_failed' } });
  }
  expect(types.at(-1)).toBe('response.failed');
  expect(types).not.toContain('response.completed');
  expect(trajectory.histories).toHaveLength(0);
});

test('a stream without token ids fails before its end is seen', async () => {
  await using desk = await openDesk(() => ({ text: 'hello', withoutTokenIds: true }));
  const { endpoint, trajectory } = openRollout();
  const { baseUrl, apiKey } = await endpoint(desk.model);
  const client = new OpenAI({ baseURL: baseUrl, apiKey });
  const finishes: unknown[] = [];
  const read = async () => {
    for await (const { choices } of await client.chat.completions.create({ ...asked, stream: true }))
      finishes.push(choices[0]?.finish_reason);
  };
  await expect(read()).rejects.toMatchObject({ code: 'unexpected_call_token_ids_missing' });
  expect(finishes.filter(Boolean)).toEqual([]);
  await expect(client.chat.completions.create(asked)).rejects.toMatchObject({ status: 422 });
  expect(trajectory.violation).toBeDefined();
});

test('a step other than the pinned one is refused, and fails the rollout', async () => {
  await using desk = await openDesk(() => ({ text: 'hello' }));
  const { endpoint, trajectory } = openRollout();
  const { baseUrl, apiKey } = await endpoint(desk.model.at(4));
  const client = new OpenAI({ baseURL: baseUrl, apiKey });
  const refusal = { status: 422, code: expect.stringMatching(/^unexpected_call_/) };
  await expect(client.chat.completions.create(asked)).rejects.toMatchObject(refusal);
  expect(desk.service.requests).toHaveLength(1);
  expect(trajectory.violation).toBeDefined();
});

test('a stream that fails at its first event is an error response, not a stream', async () => {
  const { client } = await failing(failed('service_failed', 200));
  const said = { status: 502, type: 'server_error', code: 'service_failed' };
  await expect(client.chat.completions.create({ ...asked, stream: true })).rejects.toMatchObject(said);
  await expect(client.responses.create({ model: 'any', input: 'a', stream: true })).rejects.toMatchObject(
    said,
  );
});
