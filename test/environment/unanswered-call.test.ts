import { request as forward, type RequestListener } from 'node:http';
import { generateText, streamText } from 'ai';
import { createClient, defineEnvironment, ModelHandle, type RolloutContext } from 'martingale';
import { OpenAI } from 'openai';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { runRollout } from '../../src/rollout/run-rollout.ts';
import { startFakeService } from '../model/fake-service.ts';
import { startServer } from '../support/http-server.ts';
import { noScenario, rolloutOptions } from './run-once.ts';

type Fault = 'cut' | 'cut inside the answer' | '500' | '422';

/** A proxy before a service. `faultOf` decides what happens to the n-th chat, from 1. */
async function openBehindProxy(faultOf: (chat: number) => Fault | undefined) {
  const service = await startFakeService({ policy: () => ({ text: 'fine' }) });
  let chats = 0;
  const proxy = await startServer((incoming, outgoing) => {
    const fault = incoming.url?.endsWith('/chat/completions') ? faultOf(++chats) : undefined;
    if (fault === 'cut') return void incoming.socket.destroy();
    if (fault === '500' || fault === '422')
      return void outgoing.writeHead(Number(fault)).end('{"detail": "no luck"}');
    pass(incoming, outgoing, service.baseUrl, fault === 'cut inside the answer');
  });
  const client = createClient({ baseUrl: proxy.url, apiKey: 'key', retries: 0 });
  return {
    model: new ModelHandle({ client, name: 'local/p/n:step1' }),
    async [Symbol.asyncDispose]() {
      await client.close();
      await proxy.close();
      await service[Symbol.asyncDispose]();
    },
  };
}

/** Passes a request on. @param isCut Whether the connection is cut after half of the answer. */
function pass(
  incoming: Parameters<RequestListener>[0],
  outgoing: Parameters<RequestListener>[1],
  url: string,
  isCut: boolean,
): void {
  const { method, headers } = incoming;
  const sent = forward(new URL(incoming.url ?? '/', url), { method, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
    if (!isCut) return void answer.pipe(outgoing);
    answer.once('data', (chunk: Buffer) => {
      outgoing.write(chunk.subarray(0, chunk.length / 2), () => incoming.socket.destroy());
    });
  });
  incoming.pipe(sent);
}

type Ask = (context: RolloutContext<object>, prompt: string, maxRetries: number) => Promise<string>;

const generate: Ask = async ({ model, signal }, prompt, maxRetries) =>
  (await generateText({ model: model.languageModel, prompt, maxRetries, abortSignal: signal })).text;

const agents: { agent: string; ask: Ask }[] = [
  { agent: 'an AI SDK agent', ask: generate },
  {
    agent: 'an AI SDK agent that streams',
    ask: async ({ model, signal }, prompt, maxRetries) => {
      const { fullStream } = streamText({
        ...{ model: model.languageModel, prompt, maxRetries, abortSignal: signal },
        onError: () => undefined,
      });
      let text = '';
      for await (const part of fullStream) {
        if (part.type === 'error') throw part.error;
        if (part.type === 'text-delta') text += part.text;
      }
      return text;
    },
  },
  {
    agent: 'an agent on the openai package',
    ask: async ({ model, signal }, prompt, maxRetries) => {
      const { baseUrl: baseURL, apiKey } = await model.endpoint();
      const openai = new OpenAI({ baseURL, apiKey, maxRetries });
      const messages = [{ role: 'user' as const, content: prompt }];
      const { choices } = await openai.chat.completions.create({ model: 'x', messages }, { signal });
      return choices[0]?.message.content ?? '';
    },
  },
];

/** Asks twice, and gives up in silence when the second call fails. */
const givingUp = (ask: Ask, maxRetries: number) => async (context: RolloutContext<object>) => {
  await ask(context, 'first', maxRetries);
  try {
    return await ask(context, 'second', maxRetries);
  } catch {
    return 'gave up';
  }
};

const base = { name: 'x', scenario: z.object({}) };
const rewards = { success: ({ outcome }: { outcome: string }) => Number(outcome === 'fine') };

describe.each(agents)('$agent that swallows a call without an answer', ({ ask }) => {
  test.each(['cut', 'cut inside the answer', '500'] as const)('fails its rollout: %s', async (fault) => {
    await using service = await openBehindProxy((chat) => (chat > 1 ? fault : undefined));
    const environment = defineEnvironment({ ...base, rollout: givingUp(ask, 0), rewards });
    const rollout = await runRollout(rolloutOptions(environment, noScenario, service.model));
    expect(rollout).toMatchObject({
      status: 'failed',
      failure: { code: 'call_unanswered', message: expect.stringContaining('the agent went on without it') },
    });
    expect(rollout.trajectory.reward).toBeNull();
  });

  test('completes it if the agent repeats the call with success', async () => {
    await using service = await openBehindProxy((chat) => (chat === 2 ? '500' : undefined));
    const environment = defineEnvironment({
      ...base,
      rollout: async (context) => {
        await ask(context, 'first', 0);
        for (;;) {
          const text = await ask(context, 'second', 0).catch(() => undefined);
          if (text !== undefined) return text;
        }
      },
      rewards,
    });
    const rollout = await runRollout(rolloutOptions(environment, noScenario, service.model));
    expect(rollout).toMatchObject({ status: 'completed', reward: 1 });
    expect(rollout.trajectory.metrics).not.toHaveProperty('unanswered_calls');
  });

  test('completes it with a metric and a line of the log under `warn`', async () => {
    await using service = await openBehindProxy((chat) => (chat > 1 ? '500' : undefined));
    const environment = defineEnvironment({
      ...base,
      onUnansweredCall: 'warn',
      rollout: givingUp(ask, 0),
      rewards,
    });
    const rollout = await runRollout(rolloutOptions(environment, noScenario, service.model));
    expect(rollout).toMatchObject({ status: 'completed', reward: 0, outcome: 'gave up' });
    expect(rollout.trajectory.metrics.unanswered_calls).toBe(1);
    expect(rollout.trajectory.logs).toEqual([
      expect.stringMatching(/^A model call got no answer: .*no luck/),
    ]);
  });
});

test('an answer to another question is no repetition', async () => {
  await using service = await openBehindProxy((chat) => (chat === 2 ? 'cut' : undefined));
  const environment = defineEnvironment({
    ...base,
    rollout: async (context) => {
      await givingUp(generate, 0)(context);
      return await generate(context, 'third', 0);
    },
    rewards,
  });
  const rollout = await runRollout(rolloutOptions(environment, noScenario, service.model));
  expect(rollout).toMatchObject({ status: 'failed', failure: { code: 'call_unanswered' } });
});

test('of two equal calls at once, the answered one does not stand for the other', async () => {
  await using service = await openBehindProxy((chat) => (chat === 1 ? '500' : undefined));
  const environment = defineEnvironment({
    ...base,
    rollout: async (context) => {
      const settled = await Promise.allSettled([generate(context, 'same', 0), generate(context, 'same', 0)]);
      return settled.map(({ status }) => status).join();
    },
    rewards: { any: () => 1 },
  });
  const rollout = await runRollout(rolloutOptions(environment, noScenario, service.model));
  expect(rollout).toMatchObject({ status: 'failed', failure: { code: 'call_unanswered' } });
});

test('a call that its agent aborts just before it returns fails the rollout, or is counted under `warn`', async () => {
  const never = new Promise<never>(() => undefined);
  await using service = await startFakeService({
    policy: ({ messages }) => (messages[0]?.content === 'slow' ? never : { text: 'fine' }),
  });
  const model = new ModelHandle({ client: service.client, name: 'local/p/n:step1' });
  const racing = (onUnansweredCall: 'error' | 'warn') =>
    defineEnvironment({
      ...base,
      onUnansweredCall,
      rollout: async ({ model: policy }) => {
        const slower = new AbortController();
        const calls = ['fast', 'slow'].map((prompt) =>
          generateText({ model: policy.languageModel, prompt, abortSignal: slower.signal }),
        );
        for (const call of calls) call.catch(() => undefined);
        const { text } = await Promise.race(calls);
        slower.abort();
        return text;
      },
      rewards,
    });
  const run = (decision: 'error' | 'warn') => runRollout(rolloutOptions(racing(decision), noScenario, model));
  expect(await run('error')).toMatchObject({ status: 'failed', failure: { code: 'call_unanswered' } });
  const warned = await run('warn');
  expect(warned).toMatchObject({ status: 'completed', reward: 1 });
  expect(warned.trajectory.metrics.unanswered_calls).toBe(1);
});

test('a call that its agent aborts and swallows fails the rollout', async () => {
  await using service = await openBehindProxy(() => undefined);
  const environment = defineEnvironment({
    ...base,
    rollout: async ({ model }) => {
      await generateText({ model: model.languageModel, prompt: 'first' });
      await generateText({
        model: model.languageModel,
        prompt: 'second',
        abortSignal: AbortSignal.abort(new Error('too slow')),
      }).catch(() => undefined);
      return 'fine';
    },
    rewards,
  });
  const rollout = await runRollout(rolloutOptions(environment, noScenario, service.model));
  expect(rollout).toMatchObject({
    status: 'failed',
    failure: { code: 'call_unanswered', message: expect.stringContaining('too slow') },
  });
});

test('a stream that its agent does not read to its end fails the rollout', async () => {
  await using service = await openBehindProxy(() => undefined);
  const environment = defineEnvironment({
    ...base,
    rollout: async (context) => {
      const text = await generate(context, 'first', 0);
      const { stream } = await context.model.languageModel.doStream({
        prompt: [{ role: 'user', content: [{ type: 'text', text: 'second' }] }],
      });
      const reader = stream.getReader();
      for (let part = await reader.read(); part.value?.type !== 'text-delta'; ) part = await reader.read();
      await reader.cancel();
      return text;
    },
    rewards,
  });
  const rollout = await runRollout(rolloutOptions(environment, noScenario, service.model));
  expect(rollout).toMatchObject({
    status: 'failed',
    failure: { code: 'call_unanswered', message: expect.stringContaining('stopped reading the stream') },
  });
});

test.each([
  { request: 'a refused chat', path: '/chat/completions', body: { messages: [], n: 3 }, status: 'failed' },
  {
    request: 'an address that is not served',
    path: '/embeddings',
    body: { input: 'a' },
    status: 'completed',
  },
])('$request that its agent ignores leaves the rollout $status', async ({ path, body, status }) => {
  await using service = await openBehindProxy(() => undefined);
  const environment = defineEnvironment({
    ...base,
    rollout: async (context) => {
      const text = await generate(context, 'first', 0);
      const { baseUrl, apiKey } = await context.model.endpoint();
      const answer = await fetch(`${baseUrl}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      expect(answer.ok).toBe(false);
      return text;
    },
    rewards,
  });
  expect(await runRollout(rolloutOptions(environment, noScenario, service.model))).toMatchObject({ status });
});

test('a prompt that the model does not take, and whose error the agent swallows, fails the rollout', async () => {
  await using service = await openBehindProxy(() => undefined);
  const environment = defineEnvironment({
    ...base,
    rollout: async (context) => {
      const text = await generate(context, 'first', 0);
      const image = { type: 'image' as const, image: new Uint8Array([137, 80, 78, 71]) };
      await generateText({
        model: context.model.languageModel,
        messages: [{ role: 'user', content: [image] }],
      }).catch(() => undefined);
      return text;
    },
    rewards,
  });
  const rollout = await runRollout(rolloutOptions(environment, noScenario, service.model));
  expect(rollout).toMatchObject({ status: 'failed', failure: { code: 'call_unanswered' } });
});

test('a call that the time limit of the rollout ends is scored as the limit says', async () => {
  const never = new Promise<never>(() => undefined);
  const service = await startFakeService({
    policy: ({ messages }) => (messages[0]?.content === 'second' ? never : { text: 'fine' }),
  });
  await using _ = service;
  const model = new ModelHandle({ client: service.client, name: 'local/p/n:step1' });
  const environment = defineEnvironment({
    ...base,
    limits: { milliseconds: 1500 },
    rollout: givingUp(generate, 0),
    atLimit: () => 'out of time',
    rewards,
  });
  const rollout = await runRollout(rolloutOptions(environment, noScenario, model));
  expect(rollout).toMatchObject({ status: 'completed', outcome: 'out of time' });
});
