import { generateText, tool } from 'ai';
import { defineEnvironment, type Environment, policy, ScenarioSet } from 'martingale';
import { serveEnvironment } from 'martingale/environments';
import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { createServedApp } from '../../../../src/formats/open-reward/serve/app.ts';
import { replyToolOf, requireServable } from '../../../../src/formats/open-reward/serve/servable.ts';
import { Sessions } from '../../../../src/formats/open-reward/serve/sessions.ts';
import { startServer } from '../../../support/http-server.ts';
import { RawClient } from './client.ts';
import { guess, safe } from './environments.ts';

const scenario = z.object({});
const success = () => 1;
const prompt = () => 'Begin.';
const one = { train: [{}] };

const unservable: [string, Environment, string][] = [
  [
    'an agent of its own',
    defineEnvironment({ name: 'e', scenario, rollout: () => 1, rewards: { success } }),
    'it has `rollout`',
  ],
  [
    'several agents',
    defineEnvironment({ name: 'e', scenario, seats: ['a', 'b'], rollout: () => 1, rewards: { success } }),
    'it has `seats` (a, b)',
  ],
  [
    'group rewards',
    defineEnvironment({ name: 'e', scenario, prompt, groupRewards: { best: () => [] } }),
    '`groupRewards` (best)',
  ],
  [
    'a credit of its own',
    defineEnvironment({ name: 'e', scenario, prompt, rewards: { success }, credit: () => [] }),
    'the function `credit`',
  ],
  [
    'a limit of tokens',
    defineEnvironment({ name: 'e', scenario, prompt, limits: { tokens: 9 }, rewards: { success } }),
    '`limits.tokens`',
  ],
  [
    'a name that is no part of an address',
    defineEnvironment({ name: 'my own', scenario, prompt, rewards: { success } }),
    'its name is a part of addresses',
  ],
  [
    'the name of a part of the standard',
    defineEnvironment({ name: 'Tools', scenario, prompt, rewards: { success } }),
    'its name is a part of addresses',
  ],
];

/** The words with which an episode fails whose environment does what no client can answer. */
async function failureOf(environment: Environment, call?: string): Promise<unknown> {
  const server = await serveEnvironment({ environment, scenarios: one });
  onTestFinished(() => server.close());
  const client = new RawClient(server.url, { 'x-api-key': server.apiKey });
  const session = await client.begin();
  if (call === undefined) return (await client.answer('/prompt', { session }))[1];
  return client.call(session, call, { text: 'x' });
}

describe('serveEnvironment', () => {
  it.for(unservable)('refuses %s by name', async ([, environment, words]) => {
    await expect(serveEnvironment({ environment, scenarios: one })).rejects.toMatchObject({
      code: 'environment_not_servable',
      message: expect.stringContaining(words),
    });
  });

  it.for([
    [{ scenarios: {} }, 'give at least one split'],
    [{ scenarios: { train: [] } }, 'scenarios.train: give an array'],
    [{ scenarios: { train: [{ secret: 1 }], test: [{ secret: 'x' }] } }, 'scenarios.test[0] does not fit'],
    [{ port: -1 }, 'port'],
    [{ maxSessions: 0 }, 'maxSessions is 0'],
    [{ maxSessions: 1.5 }, 'maxSessions is 1.5'],
    [{ idleTimeoutMs: Number.NaN }, 'idleTimeoutMs is NaN'],
    [{ apiKey: 'a b' }, 'apiKey'],
    [{ prot: 1 }, 'prot'],
  ] as const)('refuses %j with words', async ([options, words]) => {
    const given = { environment: guess, scenarios: { train: [{ secret: 1 }] }, ...options };
    await expect(serveEnvironment(given as Parameters<typeof serveEnvironment>[0])).rejects.toThrow(words);
  });

  it('refuses a port in use with the error of the system', async () => {
    const { port } = await startServer();
    const options = { environment: safe(), scenarios: { train: [{ code: 1 }] } };
    await expect(serveEnvironment({ ...options, port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });

  it('takes finite sets of scenarios', async () => {
    const set = ScenarioSet.of([{ secret: 1 }, { secret: 2 }]);
    const server = await serveEnvironment({ environment: guess, scenarios: { train: set } });
    onTestFinished(() => server.close());
    const [, answer] = await new RawClient(server.url, { 'x-api-key': server.apiKey }).answer('/tasks', {
      body: { split: 'train' },
    });
    expect(answer).toEqual({ tasks: [{ secret: 1 }, { secret: 2 }], env_name: 'guess' });
  });

  it('sends images, and fails an episode that shows other files', async () => {
    const shows = (mediaType: string) =>
      defineEnvironment({
        name: 'shows',
        scenario,
        prompt: () => [
          { role: 'user', content: [{ type: 'file', data: new Uint8Array([1, 2]), mediaType }] },
        ],
        rewards: { success },
      });
    expect(await failureOf(shows('image/png'))).toEqual([
      { type: 'image', data: 'AQI=', mimeType: 'image/png' },
    ]);
    expect(await failureOf(shows('application/pdf'))).toContain(
      'shows the model a file of type application/pdf',
    );
  });

  it('fails an episode whose tool gives a file that is no image, for good', async () => {
    const gives = defineEnvironment({
      name: 'gives',
      scenario,
      prompt,
      tools: {
        fetch: tool({
          inputSchema: z.looseObject({}),
          execute: () => 'file',
          toModelOutput: () => ({
            type: 'content',
            value: [{ type: 'file', data: { type: 'data', data: 'AQI=' }, mediaType: 'audio/wav' }],
          }),
        }),
      },
      rewards: { success },
    });
    const server = await serveEnvironment({ environment: gives, scenarios: one });
    onTestFinished(() => server.close());
    const client = new RawClient(server.url, { 'x-api-key': server.apiKey });
    const session = await client.begin();
    for (const _ of [1, 2]) expect(await client.call(session, 'fetch')).toContain('a file of type audio/wav');
  });

  it('fails an episode whose tool calls the model itself', async () => {
    const nested = defineEnvironment({
      name: 'nested',
      scenario,
      prompt,
      tools: {
        ask: tool({
          inputSchema: z.looseObject({}),
          execute: async (_, { abortSignal }) =>
            (await generateText({ model: policy(), prompt: 'help', abortSignal: abortSignal as AbortSignal }))
              .text,
        }),
      },
      rewards: { success },
    });
    expect(await failureOf(nested, 'ask')).toContain('calls its model from a tool');
  });

  it('fails an episode whose tools have the name of that for words', async () => {
    const named = (isFunction: boolean) => {
      const tools = { reply: tool({ inputSchema: z.object({}), execute: () => 'replied' }) };
      return defineEnvironment({
        name: 'named',
        scenario,
        prompt,
        tools: isFunction ? () => tools : tools,
        rewards: { success },
      });
    };
    expect(await failureOf(named(true))).toContain('rename it');
    expect(await failureOf(named(false), 'reply')).toMatchObject({
      output: { blocks: [{ text: 'replied' }] },
    });
    expect(await failureOf(named(false), 'reply_')).toMatchObject({ output: { finished: true, reward: 1 } });
  });

  it('takes a null for an optional argument as left out, where it is not meant', async () => {
    let seen: unknown;
    const optional = defineEnvironment({
      name: 'optional',
      scenario,
      prompt,
      tools: {
        look: tool({
          inputSchema: z.object({ text: z.string(), at: z.number().optional(), far: z.number().nullish() }),
          execute: (input) => {
            seen = input;
            return 'seen';
          },
        }),
      },
      rewards: { success },
    });
    const server = await serveEnvironment({ environment: optional, scenarios: one, listReply: true });
    onTestFinished(() => server.close());
    const client = new RawClient(server.url, { 'x-api-key': server.apiKey });
    const session = await client.begin();
    await client.call(session, 'look', { text: 'x', at: null, far: null });
    expect(seen).toEqual({ text: 'x', far: null });
    expect((await client.answer('/tools'))[1]).toMatchObject({
      tools: [{ name: 'look' }, { name: 'reply' }],
      terminal_tool: { name: 'reply' },
    });
    expect(await client.call(session, 'look', { text: null })).toMatchObject({ reason: 'input_validation' });
  });
});

describe('a server of an environment that is slow', () => {
  async function slow(gate: Promise<void>, at: 'setup' | 'tool') {
    const environment = requireServable(
      defineEnvironment({
        name: 'slow',
        scenario,
        setup: () => (at === 'setup' ? gate : undefined),
        prompt,
        tools: {
          work: tool({
            inputSchema: z.object({}),
            execute: async () => {
              await gate;
              return 'done';
            },
          }),
        },
        rewards: { success },
      }),
    );
    const sessions = new Sessions({ max: 9, idleMs: 60_000, onProblem: () => undefined });
    onTestFinished(() => sessions.close());
    const app = createServedApp({
      environment,
      splits: new Map([['train', [{}]]]),
      tools: [],
      replyTool: replyToolOf(environment, { listReply: false }),
      sessions,
      apiKey: 'a-key',
      isLocal: true,
      deadlines: { timeoutMs: 60_000, rewardTimeoutMs: 60_000 },
      setupWaitMs: 5,
      pingMs: 2,
    });
    const headers = {
      ...{ 'x-session-id': 's', 'content-type': 'application/json' },
      ...{ host: '127.0.0.1', authorization: 'Bearer a-key' },
    };
    const post = (path: string, body: object) =>
      app.request(path, { method: 'POST', headers, body: JSON.stringify(body) });
    await post('/create', { split: 'train', index: 0 });
    return { post, get: (path: string) => app.request(path, { headers }) };
  }

  it('tells a client to come back while the set-up lasts, and answers then', async () => {
    const gate = Promise.withResolvers<void>();
    const { get, post } = await slow(gate.promise, 'setup');
    for (const answer of [await get('/prompt'), await post('/call', { name: 'work', input: {} })])
      expect([
        answer.status,
        answer.headers.get('x-backend-state'),
        answer.headers.get('retry-after'),
      ]).toEqual([503, 'starting', '2']);
    gate.resolve();
    await expect.poll(async () => (await get('/prompt')).status).toBe(200);
  });

  it('sends signs of life while a call runs', async () => {
    const gate = Promise.withResolvers<void>();
    const { get, post } = await slow(gate.promise, 'tool');
    await expect.poll(async () => (await get('/prompt')).status).toBe(200);
    const answer = await post('/call', { name: 'work', input: {} });
    let text = '';
    for await (const chunk of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk;
      if (text.split(': ping\n\n').length > 3) gate.resolve();
    }
    expect(text).toMatch(/^event: task_id\ndata: [\w-]+\n\n(: ping\n\n){3,}event: end\ndata: \{"ok":true/);
  });
});
