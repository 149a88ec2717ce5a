import { closeEndpoints, currentTrajectory, ModelHandle } from 'martingale';
import { runInTrajectory } from 'martingale/loop';
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import type { CompletionSource } from '../../src/model/completion-source.ts';
import { callBudget } from '../../src/model/index.ts';
import type { FakePolicy } from '../model/fake-service.ts';
import { completionsOf, expectExact, name, openDesk, openRollout } from './support.ts';

const hello: FakePolicy = () => ({ text: 'hello' });
const asked = { model: 'any', messages: [{ role: 'user' as const, content: 'a' }] };

function clientOf({ baseUrl, apiKey }: { baseUrl: string; apiKey: string }, maxRetries = 2) {
  return new OpenAI({ baseURL: baseUrl, apiKey, maxRetries });
}

/** A source that answers nothing until its call is aborted, and says when it was asked and when let go. */
function hanging() {
  const reached = Promise.withResolvers<void>();
  const aborted = Promise.withResolvers<unknown>();
  const hang = (signal: AbortSignal | undefined) =>
    new Promise<never>((_, reject) => {
      const stop = () => {
        aborted.resolve(signal?.reason);
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', stop);
      reached.resolve();
    });
  const completions = {
    create: (_request: unknown, options?: { signal?: AbortSignal | undefined }) => hang(options?.signal),
  } as CompletionSource;
  return { completions, reached: reached.promise, aborted: aborted.promise };
}

test('a key ends with its rollout, and no client retries', async () => {
  await using desk = await openDesk(hello);
  const { endpoint, end, trajectory } = openRollout();
  const client = clientOf(await endpoint(desk.model));
  await client.chat.completions.create(asked);
  end();
  const late = client.chat.completions.create(asked);
  await expect(late).rejects.toMatchObject({ status: 410, code: 'trajectory_closed' });
  await expect(client.responses.create({ model: 'any', input: 'a' })).rejects.toMatchObject({ status: 410 });
  expect(desk.service.requests).toHaveLength(1);
  expect(trajectory.choices).toHaveLength(1);
  await expect(endpoint(desk.model)).rejects.toThrow(/after that rollout had ended/);
});

test('a closed trajectory refuses calls even before its signal aborts', async () => {
  await using desk = await openDesk(hello);
  const { endpoint, trajectory } = openRollout();
  const client = clientOf(await endpoint(desk.model));
  trajectory.close();
  await expect(client.chat.completions.create(asked)).rejects.toMatchObject({ status: 410 });
  expect(desk.service.requests).toHaveLength(0);
});

test('the same trajectory and model have one key; another trajectory or model has another', async () => {
  await using desk = await openDesk(hello);
  const [a, b] = [openRollout(), openRollout()];
  const first = await a.endpoint(desk.model);
  expect(await a.endpoint(desk.model)).toEqual(first);
  const judge = desk.model.with({ record: false });
  const keys = [first, await b.endpoint(desk.model), await a.endpoint(judge), await desk.model.endpoint()];
  expect(new Set(keys.map(({ apiKey }) => apiKey)).size).toBe(4);
  expect(new Set(keys.map(({ baseUrl }) => baseUrl)).size).toBe(1);
});

test('unknown and missing keys are refused', async () => {
  await using desk = await openDesk(hello);
  const { baseUrl, apiKey } = await desk.model.endpoint();
  const forged = `${apiKey.slice(0, -1)}${apiKey.endsWith('A') ? 'B' : 'A'}`;
  for (const [key, status, code] of [
    ['sk-something', 401, 'invalid_api_key'],
    [forged, 410, 'trajectory_closed'],
    ['martingale.a.b', 410, 'trajectory_closed'],
  ] as const)
    await expect(clientOf({ baseUrl, apiKey: key }).models.list()).rejects.toMatchObject({ status, code });
  const response = await fetch(`${baseUrl}/models`);
  expect(response.status).toBe(401);
  expect(await response.json()).toMatchObject({ error: { code: 'api_key_missing' } });
});

test('outside of a rollout nothing is recorded, and nothing of the rollout that started the server is there', async () => {
  const scopes: unknown[] = [];
  const { endpoint, trajectory } = openRollout();
  const create = (request: { model?: string | null }) => {
    scopes.push(currentTrajectory());
    return Promise.resolve({
      ...{ id: 'x', object: 'chat.completion' as const, created: 0, model: request.model ?? '' },
      choices: [{ index: 0, message: { role: 'assistant' as const, content: 'x' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    });
  };
  const model = new ModelHandle({ name, completions: completionsOf(create) });
  try {
    // This call starts the server.
    await endpoint(model);
    const client = clientOf(await model.endpoint());
    await client.chat.completions.create(asked);
    expect(scopes).toEqual([undefined]);
    expect(trajectory.choices).toHaveLength(0);
    await expect(model.with({ outsideRollout: 'error' }).endpoint()).rejects.toThrow(/outside of a rollout/);
  } finally {
    await closeEndpoints();
  }
});

test('a judge is not recorded, and its key ends with the rollout too', async () => {
  await using desk = await openDesk(() => ({ text: '7', model: 'local/shop/desk:step9' }));
  const { endpoint, end, trajectory } = openRollout();
  const client = clientOf(await endpoint(desk.model.at(9).with({ record: false })));
  await client.chat.completions.create(asked);
  expect(trajectory.histories).toHaveLength(0);
  end();
  await expect(client.chat.completions.create(asked)).rejects.toMatchObject({ status: 410 });
});

test.each([false, true])('the end of a rollout aborts its calls in flight (streamed: %s)', async (stream) => {
  const { completions, reached, aborted } = hanging();
  const { endpoint, end } = openRollout();
  try {
    const client = clientOf(await endpoint(new ModelHandle({ name, completions })));
    const call = client.chat.completions.create({ ...asked, stream });
    await reached;
    end();
    await expect(call).rejects.toMatchObject({ status: 410, code: 'trajectory_closed' });
    await aborted;
  } finally {
    await closeEndpoints();
  }
});

test.each([false, true])('a client that goes away aborts its call (streamed: %s)', async (stream) => {
  const { completions, reached, aborted } = hanging();
  const { endpoint, trajectory } = openRollout();
  try {
    const client = clientOf(await endpoint(new ModelHandle({ name, completions })));
    const gone = new AbortController();
    const call = client.chat.completions.create({ ...asked, stream }, { signal: gone.signal });
    await reached;
    gone.abort();
    await expect(call).rejects.toThrow();
    await aborted;
    expect(trajectory.histories).toHaveLength(0);
  } finally {
    await closeEndpoints();
  }
});

test('a stream that is left in its middle gives its place in the budget back and is not recorded', async () => {
  const sent = Promise.withResolvers<AbortSignal | undefined>();
  const left = Promise.withResolvers<void>();
  const chunk = (content: string) => ({
    ...{ id: 'x', object: 'chat.completion.chunk' as const, created: 0, model: name },
    choices: [{ index: 0, delta: { content }, finish_reason: null }],
  });
  async function* chunks(signal: AbortSignal | undefined) {
    try {
      yield chunk('a');
      sent.resolve(signal);
      await new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
    } finally {
      left.resolve();
    }
  }
  const create = (_: unknown, options?: { signal?: AbortSignal }) => Promise.resolve(chunks(options?.signal));
  const budget = callBudget({ concurrency: 1 });
  const completions = completionsOf(create);
  const { endpoint, trajectory } = openRollout();
  try {
    const client = clientOf(await endpoint(new ModelHandle({ name, completions, settings: { budget } })));
    for await (const _ of await client.chat.completions.create({ ...asked, stream: true })) break;
    await left.promise;
    // There is one place: it is free again.
    const place = await budget.acquire();
    place.release({ status: 'answered', durationMs: 0 });
    expect(trajectory.histories).toHaveLength(0);
  } finally {
    await closeEndpoints();
  }
});

test('closing tells those who wait', async () => {
  const { completions, reached } = hanging();
  const { endpoint } = openRollout();
  const client = clientOf(await endpoint(new ModelHandle({ name, completions })), 0);
  const call = client.chat.completions.create(asked);
  const refused = expect(call).rejects.toMatchObject({ status: 503, code: 'endpoint_closed' });
  await reached;
  await closeEndpoints();
  await refused;
});

test('closing ends every key; the next one is of another server', async () => {
  await using desk = await openDesk(hello);
  const { endpoint, trajectory } = openRollout();
  const before = await endpoint(desk.model);
  await closeEndpoints();
  await expect(fetch(`${before.baseUrl}/models`)).rejects.toThrow();
  const after = await endpoint(desk.model);
  expect(after.apiKey).not.toBe(before.apiKey);
  await clientOf(after).chat.completions.create(asked);
  expect(trajectory.choices).toHaveLength(1);
});

test('limits of the rollout are refusals that no client repeats', async () => {
  await using desk = await openDesk(hello);
  const { endpoint, trajectory } = openRollout({ limits: { turns: 2, tokens: 9 } });
  const client = clientOf(await endpoint(desk.model));
  await client.chat.completions.create({ ...asked, max_tokens: 50 });
  await client.chat.completions.create({ ...asked, max_tokens: 2 });
  const third = client.chat.completions.create(asked);
  await expect(third).rejects.toMatchObject({ status: 400 });
  expect(desk.service.requests.map(({ max_completion_tokens }) => max_completion_tokens)).toEqual([9, 2]);
  expect(trajectory.stopReason).toBe('turn_limit');
});

test('settings of the handle win over what agents ask for', async () => {
  await using desk = await openDesk(hello, { temperature: 0, maxOutputTokens: 5, topK: 3 });
  const { endpoint } = openRollout();
  const client = clientOf(await endpoint(desk.model));
  await client.chat.completions.create({ ...asked, temperature: 0.9, top_p: 0.5, max_completion_tokens: 50 });
  await client.responses.create({
    model: 'any',
    input: 'a',
    temperature: 0.9,
    top_p: 0.5,
    max_output_tokens: 50,
  });
  for (const request of desk.service.requests)
    expect(request).toMatchObject({
      temperature: 0,
      top_p: 0.5,
      top_k: 3,
      max_completion_tokens: 5,
      model: name,
    });
});

test('calls have the seeds of their rollout', async () => {
  await using desk = await openDesk(hello);
  for (let repeat = 0; repeat < 2; repeat++) {
    const { endpoint } = openRollout({ seed: 7 });
    const client = clientOf(await endpoint(desk.model));
    for (let turn = 0; turn < 2; turn++) await client.chat.completions.create(asked);
  }
  const [first, second, ...again] = desk.service.requests.map(({ seed }) => seed);
  expect(again).toEqual([first, second]);
  expect(first).not.toBe(second);
});

test('500 rollouts at once do not mix', { tags: ['long'] }, async () => {
  await using desk = await openDesk(({ messages }) => ({
    text: `to ${JSON.stringify(messages.at(-1)?.content)}`,
  }));
  const rollouts = Array.from({ length: 500 }, (_, index) => ({ index, ...openRollout({ seed: index }) }));
  await Promise.all(
    rollouts.map(async ({ index, trajectory }) =>
      runInTrajectory(trajectory, async () => {
        const { baseUrl, apiKey } = await desk.model.endpoint();
        const messages: { role: string; content: string }[] = [];
        for (let turn = 0; turn < 3; turn++) {
          messages.push({ role: 'user', content: `rollout ${index} turn ${turn}` });
          const response = await fetch(`${baseUrl}/chat/completions`, {
            method: 'POST',
            headers: { authorization: `Bearer ${apiKey}` },
            body: JSON.stringify({ model: 'any', messages }),
          });
          const { choices } = (await response.json()) as { choices: [{ message: { content: string } }] };
          messages.push({ role: 'assistant', content: choices[0].message.content });
        }
      }),
    ),
  );
  const byRollout = Map.groupBy(desk.service.requests, ({ messages }) =>
    String(messages[0]?.content).replace(/ turn.*/, ''),
  );
  for (const { index, trajectory, end } of rollouts) {
    end();
    expect(trajectory.histories).toHaveLength(1);
    expect(trajectory.choices.map(({ message }) => message.content)).toEqual(
      [0, 1, 2].map((turn) => `to "rollout ${index} turn ${turn}"`),
    );
    expectExact(trajectory, byRollout.get(`rollout ${index}`) ?? []);
  }
});
