import { once } from 'node:events';
import { createServer } from 'node:http';
import { generateText } from 'ai';
import OpenAI from 'openai';
import { z } from 'zod';
import { type Client, defineEnvironment, type Environment, ModelHandle, runGroups } from '../../src/index.ts';

export type Work = (options: {
  client: Client;
  calls: number;
  inFlight: number;
  signal?: AbortSignal;
}) => Promise<unknown>;

const request = {
  model: 'local/p/bench:step1',
  messages: [{ role: 'user' as const, content: 'What is there to say about this?' }],
  return_token_ids: true,
  logprobs: true,
};

const scenario = z.object({ id: z.number() });

/** A one-step agent with the AI SDK, as in most environments. */
const withAiSdk = defineEnvironment({
  name: 'bench',
  scenario,
  rollout: async ({ model, signal }) => {
    const { text } = await generateText({
      model: model.languageModel,
      prompt: 'What is there to say about this?',
      abortSignal: signal,
    });
    return text;
  },
  rewards: { long: ({ outcome }) => outcome.length },
});

/** Calls the model without the AI SDK, to measure our own cost. */
const withoutAiSdk = defineEnvironment({
  name: 'bench',
  scenario,
  rollout: async ({ model, signal }) => {
    const { content } = await model.languageModel.doGenerate({
      prompt: [{ role: 'user', content: [{ type: 'text', text: 'What is there to say about this?' }] }],
      abortSignal: signal,
    });
    return content.length;
  },
  rewards: { long: ({ outcome }) => outcome },
});

type Post = (address: { baseUrl: string; apiKey: string }, signal?: AbortSignal) => Promise<string>;

const chat = { model: 'any', messages: request.messages };

const byFetch: Post = async ({ baseUrl, apiKey }, signal) => {
  const response = await fetch(`${baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(chat),
    ...(signal ? { signal } : {}),
  });
  return response.text();
};

const byOpenai: Post = async ({ baseUrl, apiKey }, signal) => {
  const client = new OpenAI({ baseURL: baseUrl, apiKey });
  const { choices } = await client.chat.completions.create(chat, signal ? { signal } : {});
  return choices[0]?.message.content ?? '';
};

/** An agent that calls the model over HTTP. */
const throughEndpoint = (post: Post) =>
  defineEnvironment({
    name: 'bench',
    scenario,
    rollout: async ({ model, signal }) => post(await model.endpoint(), signal),
    rewards: { long: ({ outcome }) => outcome.length },
  });

/** The limit of any endpoint in this process: `node:http` with the client behind it, and nothing else. */
const bareProxy =
  (post: Post): Work =>
  async ({ client, calls, inFlight, signal }) => {
    const server = createServer((incoming, response) => {
      incoming.resume().once('end', async () => {
        const answer = await client.chat.completions.create(request, { signal }).catch(() => null);
        response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
      });
    });
    server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 });
    await once(server, 'listening');
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    let next = 0;
    const caller = async () => {
      while (next++ < calls) await post({ baseUrl: `http://127.0.0.1:${port}`, apiKey: 'key' }, signal);
    };
    try {
      await Promise.all(Array.from({ length: inFlight }, caller));
    } finally {
      server.closeAllConnections();
      server.close();
    }
  };

const bare: Work = async ({ client, calls, inFlight, signal }) => {
  let next = 0;
  const kept: unknown[] = [];
  const caller = async () => {
    while (next++ < calls) kept.push(await client.chat.completions.create(request, { signal }));
  };
  await Promise.all(Array.from({ length: inFlight }, caller));
  return kept;
};

const rollouts =
  <Outcome>(environment: Environment<typeof scenario, Outcome>): Work =>
  async ({ client, calls, inFlight, signal }) => {
    const { groups, counts } = await runGroups({
      environment,
      scenarios: Array.from({ length: calls / 8 }, (_, id) => ({ id })),
      rolloutsPerGroup: 8,
      model: new ModelHandle({ client, name: request.model }),
      concurrency: inFlight,
      ...(signal ? { signal } : {}),
    });
    if (!signal && counts.completed !== calls)
      throw new Error(`not all completed: ${JSON.stringify(counts)}`);
    return groups;
  };

/** What is measured, by name. The first is what the others are compared with. */
export const kinds: [string, Work][] = [
  ['the client alone', bare],
  ['rollouts', rollouts(withoutAiSdk)],
  ['rollouts with the AI SDK', rollouts(withAiSdk)],
];

/** Each call has a connection to the endpoint and one to the service: a process may not open enough for more. */
export const maxThroughHttp = 4000;

export const kindsThroughHttp: [string, Work][] = [
  ['rollouts through endpoint(), by fetch', rollouts(throughEndpoint(byFetch))],
  ['rollouts through endpoint(), by openai', rollouts(throughEndpoint(byOpenai))],
  ['a bare proxy, by fetch', bareProxy(byFetch)],
  ['a bare proxy, by openai', bareProxy(byOpenai)],
];
