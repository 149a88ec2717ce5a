import Anthropic from '@anthropic-ai/sdk';
import { closeEndpoints, ModelHandle } from 'martingale';
import { expect, test } from 'vitest';
import { RequestError, type RequestErrorCode } from '../../src/client/index.ts';
import { completionsOf, name, openDesk, openRollout, twoTurns } from './support.ts';

const asked = { model: 'claude', max_tokens: 100, messages: [{ role: 'user' as const, content: 'a' }] };

function clientOf({ baseUrl, apiKey }: { baseUrl: string; apiKey: string }, maxRetries = 0) {
  return new Anthropic({ baseURL: baseUrl, apiKey, authToken: null, maxRetries });
}

const facts = { method: 'POST', path: '/v1/chat/completions', requestId: 'r', detail: 'said the service' };
const failed = (code: RequestErrorCode, status: number | null, retryAfterMs?: number) =>
  new RequestError(code, { ...facts, status }, { retryAfterMs });

/** A model whose calls end in turn as the list says: in an error, or in chunks. */
async function openFailing(ends: (Error | (() => AsyncGenerator<unknown>))[]) {
  let calls = 0;
  const create = async () => {
    const end = ends[Math.min(calls++, ends.length - 1)];
    if (typeof end === 'function') return end();
    throw end;
  };
  const { endpoint, trajectory } = openRollout();
  const address = await endpoint(new ModelHandle({ name, completions: completionsOf(create) }));
  return { address, trajectory, calls: () => calls, [Symbol.asyncDispose]: closeEndpoints };
}

test.each([
  [failed('rate_limited', 429), 429, 'rate_limit_error', Anthropic.RateLimitError],
  [failed('service_failed', 500), 500, 'api_error', Anthropic.InternalServerError],
  [failed('service_failed', 503), 503, 'overloaded_error', Anthropic.InternalServerError],
  [failed('timed_out', null), 504, 'timeout_error', Anthropic.InternalServerError],
  [failed('not_found', 404), 404, 'not_found_error', Anthropic.NotFoundError],
  [failed('unprocessable', 422), 422, 'invalid_request_error', Anthropic.UnprocessableEntityError],
])('a failure of the service is a typed error of the client: %s', async (error, status, type, typed) => {
  await using opened = await openFailing([error]);
  const client = clientOf(opened.address);
  for (const call of [
    client.messages.create(asked),
    client.messages.create({ ...asked, stream: true }),
    client.messages.countTokens({ model: 'claude', messages: asked.messages }),
  ]) {
    const thrown = await call.catch((cause: unknown) => cause);
    expect(thrown).toBeInstanceOf(typed);
    expect(thrown).toMatchObject({ status, type, errorCode: error.code });
    expect(thrown).toMatchObject({ apiMessage: expect.stringContaining('said the service') });
  }
  expect(opened.trajectory.histories).toHaveLength(0);
});

const chunk = (delta: object, more: object = {}) => ({
  ...{ id: 'x', object: 'chat.completion.chunk', created: 0, model: name, prompt_token_ids: [1] },
  choices: [{ index: 0, delta, finish_reason: null, ...more }],
});

async function* whole() {
  yield chunk({ content: 'he' });
  yield chunk({}, { finish_reason: 'stop', token_ids: [2], logprobs: { content: [] } });
}

async function* breaking() {
  yield chunk({ content: 'he' });
  throw failed('service_failed', 503);
}

test('the client repeats what may be repeated, and what the endpoint itself refuses it does not', async () => {
  const limits = [failed('rate_limited', 429, 1), failed('service_failed', 503, 1), whole];
  await using opened = await openFailing(limits);
  const client = clientOf(opened.address, 2);
  const reply = await client.messages.stream(asked).finalMessage();
  expect([reply.content, opened.calls()]).toMatchObject([[{ text: 'he' }], 3]);
  expect(opened.trajectory.choices).toHaveLength(1);
  expect(opened.trajectory.observations.unansweredCalls).toHaveLength(0);
  const refused = await client.messages.create({ ...asked, messages: [] }).catch((cause: unknown) => cause);
  if (!(refused instanceof Anthropic.BadRequestError)) throw refused;
  expect(refused.headers?.get('x-should-retry')).toBe('false');
});

test('a stream that breaks ends with an error event, never as a whole reply', async () => {
  await using opened = await openFailing([breaking]);
  const seen: string[] = [];
  const read = async () => {
    const stream = await clientOf(opened.address).messages.create({ ...asked, stream: true });
    for await (const event of stream) seen.push(event.type);
  };
  await expect(read()).rejects.toMatchObject({ type: 'overloaded_error', errorCode: 'service_failed' });
  expect(seen).toEqual(['message_start', 'content_block_start', 'content_block_delta']);
  const final = clientOf(opened.address).messages.stream(asked).finalMessage();
  await expect(final).rejects.toBeInstanceOf(Anthropic.APIError);
  expect(opened.trajectory.histories).toHaveLength(0);
  expect(opened.trajectory.observations.unansweredCalls).toHaveLength(1);
});

test('an agent that leaves a stream ends the call, which is not recorded', async () => {
  const left = Promise.withResolvers<void>();
  const create = async (_: unknown, options?: { signal?: AbortSignal }) =>
    (async function* () {
      try {
        yield chunk({ content: 'he' });
        await new Promise((_, reject) =>
          options?.signal?.addEventListener('abort', () => reject(options.signal?.reason)),
        );
      } finally {
        left.resolve();
      }
    })();
  const { endpoint, trajectory } = openRollout();
  try {
    const client = clientOf(await endpoint(new ModelHandle({ name, completions: completionsOf(create) })));
    const stream = client.messages.stream(asked);
    stream.on('text', () => stream.abort());
    await expect(stream.finalMessage()).rejects.toBeInstanceOf(Anthropic.APIUserAbortError);
    await left.promise;
    expect(trajectory.histories).toHaveLength(0);
  } finally {
    await closeEndpoints();
  }
});

test('a key ends with its rollout, and the client does not retry', async () => {
  await using desk = await openDesk(twoTurns);
  const { endpoint, end } = openRollout();
  const client = clientOf(await endpoint(desk.model), 2);
  end();
  await expect(client.messages.create(asked)).rejects.toMatchObject({
    ...{ status: 410, errorCode: 'trajectory_closed', type: 'invalid_request_error' },
  });
  expect(desk.service.requests).toHaveLength(0);
});

test('a call that cannot be recorded is never shown', async () => {
  await using desk = await openDesk((request) => ({ ...twoTurns(request), withoutTokenIds: true }));
  const { endpoint, trajectory } = openRollout();
  const client = clientOf(await endpoint(desk.model));
  const seen: string[] = [];
  const read = async () => {
    for await (const event of await client.messages.create({ ...asked, stream: true })) seen.push(event.type);
  };
  await expect(read()).rejects.toMatchObject({ errorCode: 'unexpected_call_token_ids_missing' });
  expect(seen).toEqual(['message_start']);
  expect(trajectory.violation).toBeDefined();
});
