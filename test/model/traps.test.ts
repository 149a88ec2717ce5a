import {
  generateObject,
  generateText,
  type LanguageModel,
  Output,
  stepCountIs,
  streamObject,
  streamText,
  ToolLoopAgent,
  tool,
} from 'ai';
import { ModelHandle, Trajectory } from 'martingale';
import { runInTrajectory } from 'martingale/loop';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import type { ChatCompletionRequest } from '../../src/contract/index.ts';
import { expectExactly, type Sampled } from './exact.ts';
import { type FakePolicy, render, startFakeService } from './fake-service.ts';
import { type Fate, startFlakyProxy } from './flaky-proxy.ts';

// The AI SDK writes the error that ends a stream to the console, and half of these tests cause one.
beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation(() => undefined);
});
afterEach(() => vi.restoreAllMocks());

const name = 'local/shop/desk:step3';
const tools = {
  weather: tool({
    inputSchema: z.object({ city: z.string(), n: z.number(), unit: z.string().default('C') }),
    execute: ({ city, n }) => `${city}: ${n}`,
  }),
};
const prompt = 'how is the weather?';

interface Options {
  model: ModelHandle;
  steps?: number;
}

/** The same agent, run in each way that the AI SDK offers. */
const ways = {
  'ToolLoopAgent, generated': ({ model: { languageModel: model }, steps }: Options) =>
    new ToolLoopAgent({ model, tools, ...stop(steps) }).generate({ prompt }),
  'ToolLoopAgent, streamed': async ({ model: { languageModel: model }, steps }: Options) => {
    const result = await new ToolLoopAgent({ model, tools, ...stop(steps) }).stream({ prompt });
    await result.consumeStream();
  },
  generateText: ({ model: { languageModel: model }, steps = 20 }: Options) =>
    generateText({ model, tools, prompt, stopWhen: stepCountIs(steps) }),
  streamText: async ({ model: { languageModel: model }, steps = 20 }: Options) => {
    const result = streamText({
      model,
      tools,
      prompt,
      stopWhen: stepCountIs(steps),
      onError: () => undefined,
    });
    await result.consumeStream();
  },
} satisfies Record<string, (options: Options) => PromiseLike<unknown>>;
const everyWay = Object.entries(ways);

const stop = (steps: number | undefined) => (steps === undefined ? {} : { stopWhen: stepCountIs(steps) });

/** Opens a model and records what its policy sampled. */
async function open(answers: FakePolicy, fates?: Fate[]) {
  const service = await startFakeService({ policy: answers });
  const proxy = fates && (await startFlakyProxy(service.baseUrl, fates));
  const model = new ModelHandle({ client: proxy?.client ?? service.client, name });
  const trajectory = new Trajectory({ policy: name, seed: 5 });
  const dispose = async () => {
    await proxy?.[Symbol.asyncDispose]();
    await service[Symbol.asyncDispose]();
  };
  return { service, proxy, model, trajectory, [Symbol.asyncDispose]: dispose };
}

const promptsOf = (requests: readonly ChatCompletionRequest[]) =>
  requests.map(({ messages }) => render(messages));

/** Calls the tool with these arguments several times, formatted differently each time, then answers. */
const calling =
  (written: (call: number) => string, times: number): FakePolicy =>
  ({ messages }) => {
    const callCount = messages.filter(({ role }) => role === 'tool').length;
    return callCount < times
      ? { toolCalls: [{ name: 'weather', arguments: written(callCount) }] }
      : { text: 'mild' };
  };

/** Expects that each prompt extends the one before it and its sampled tokens. */
function expectExtended(trajectory: Trajectory, requests: readonly ChatCompletionRequest[]) {
  const prompts = promptsOf(requests);
  const sampled = trajectory.choices.map(
    ({ token_ids = [] }, at): Sampled => ({ prompt: prompts[at] ?? [], tokens: token_ids ?? [] }),
  );
  for (const [at, { prompt: before, tokens }] of sampled.entries()) {
    const next = prompts[at + 1];
    if (next) expect(next.slice(0, before.length + tokens.length)).toEqual([...before, ...tokens]);
  }
  expectExactly(trajectory, sampled);
}

describe.each(everyWay)('%s', (_, run) => {
  test('trap: the history is rewritten; the prompt still extends the sampled tokens', async () => {
    await using opened = await open(calling((call) => `{ "city" :  "SF${' '.repeat(call)}", "n": 1.0 }`, 3));
    const { service, model, trajectory } = opened;
    await runInTrajectory(trajectory, () => run({ model }));
    expect(trajectory.histories).toHaveLength(1);
    expect(trajectory.choices).toHaveLength(4);
    expectExtended(trajectory, service.requests);
    expect(trajectory.choices[0]?.message.tool_calls?.[0]?.function.arguments).toBe(
      '{ "city" :  "SF", "n": 1.0 }',
    );
  });

  test('trap: malformed arguments are erased; they are trained on as sampled', async () => {
    await using opened = await open(calling((call) => `{"city": "S${call}`, 2));
    const { service, model, trajectory } = opened;
    await runInTrajectory(trajectory, () => run({ model }));
    expect(trajectory.histories).toHaveLength(1);
    expect(trajectory.choices).toHaveLength(3);
    expectExtended(trajectory, service.requests);
    const sent = service.requests[2]?.messages.filter(({ role }) => role === 'assistant');
    expect(sent).toMatchObject(
      [0, 1].map((call) => ({ tool_calls: [{ function: { arguments: `{"city": "S${call}` } }] })),
    );
  });

  test('trap: an agent is stopped by its step limit; its calls until then are one exact history', async () => {
    await using opened = await open(calling((call) => `{"city":"SF","n":${call}}`, 100));
    const { service, model, trajectory } = opened;
    await runInTrajectory(trajectory, () => run({ model }));
    // The AI SDK's own default: no answer ever came, and the last choice is a tool call.
    expect(trajectory.choices).toHaveLength(20);
    expect(trajectory.choices.at(-1)?.finish_reason).toBe('tool_calls');
    expect(trajectory.histories).toHaveLength(1);
    expectExtended(trajectory, service.requests);

    const longer = new Trajectory({ policy: name });
    await runInTrajectory(longer, () => run({ model, steps: 25 }));
    expect(longer.choices).toHaveLength(25);
    expect(longer.histories).toHaveLength(1);

    const limited = new Trajectory({ policy: name, limits: { turns: 3 } });
    await runInTrajectory(limited, async () => run({ model })).then(undefined, () => undefined);
    expect(limited.choices).toHaveLength(3);
    expect(limited.stopReason).toBe('turn_limit');
  });

  test('trap: retries are outside the model; nothing of a failed attempt is recorded', async () => {
    await using opened = await open(
      calling(() => '{"city":"SF","n":1}', 1),
      ['pass', 'fail'],
    );
    const { service, model, trajectory } = opened;
    // The agent's own retry: the first try ends in its second call.
    const attempt = () =>
      runInTrajectory(trajectory, async () => run({ model })).then(undefined, () => undefined);
    await attempt();
    expect(trajectory.choices).toHaveLength(1);
    expect(trajectory.usage.turns).toBe(2);
    await attempt();
    expect(trajectory.usage.turns).toBe(4);
    expect(trajectory.choices.map(({ finish_reason }) => finish_reason)).toEqual([
      'tool_calls',
      'tool_calls',
      'stop',
    ]);
    const [first, second, third] = promptsOf(service.requests);
    const tokens = trajectory.calls.map(({ choice }) => choice.token_ids ?? []);
    expectExactly(trajectory, [
      { prompt: first ?? [], tokens: tokens[0] ?? [] },
      { prompt: second ?? [], tokens: tokens[1] ?? [] },
      { prompt: third ?? [], tokens: tokens[2] ?? [] },
    ]);
    // The abandoned try and the answered one are separate histories.
    expect(trajectory.histories.map(({ choices }) => choices.length)).toEqual([1, 2]);
  });
});

test('an answer that the client requested twice is recorded once, with the seed of both requests', async () => {
  const service = await startFakeService({ policy: () => ({ text: 'mild' }) });
  await using _ = service;
  await using proxy = await startFlakyProxy(service.baseUrl, ['busy', 'busy'], { retries: 3 });
  const model = new ModelHandle({ client: proxy.client, name });
  const trajectory = new Trajectory({ policy: name, seed: 5 });
  await runInTrajectory(trajectory, () => generateText({ model: model.languageModel, prompt }));
  expect(proxy.bodies).toHaveLength(3);
  expect(new Set(proxy.bodies).size).toBe(1);
  expect(trajectory.choices).toHaveLength(1);
  expect(trajectory.usage.turns).toBe(1);
});

test('nothing of a broken stream is recorded; an agent that repeats the call records the new answer', async () => {
  await using opened = await open(() => ({ text: 'mild and dry all day' }), [{ cutBefore: 'ry all day' }]);
  const { service, proxy, model, trajectory } = opened;
  const read = () =>
    runInTrajectory(trajectory, async () => {
      let text = '';
      let failed: unknown;
      const { textStream } = streamText({ model: model.languageModel, prompt, onError: () => undefined });
      try {
        for await (const delta of textStream) text += delta;
      } catch (error) {
        failed = error;
      }
      return { text, failed };
    });
  const cut = await read();
  expect(cut.text).toBe('mild and d');
  expect(cut.failed).toBeInstanceOf(Error);
  expect(trajectory.histories).toHaveLength(0);
  expect(trajectory.violation).toBeUndefined();

  const whole = await read();
  expect(whole).toEqual({ text: 'mild and dry all day', failed: undefined });
  expect(trajectory.calls).toMatchObject([
    { index: 1, choice: { message: { content: 'mild and dry all day' } } },
  ]);
  expectExactly(trajectory, [
    { prompt: promptsOf(service.requests)[1] ?? [], tokens: trajectory.choices[0]?.token_ids ?? [] },
  ]);
  // Each attempt is another sample with its own seed.
  const seeds = proxy?.bodies.map((body) => JSON.parse(body).seed);
  expect(new Set(seeds).size).toBe(2);
});

test('a stream that ends before its reply is complete is an error, and nothing of it is recorded', async () => {
  await using opened = await open(() => ({ text: 'mild and dry all day' }), [{ endBefore: 'ry all day' }]);
  const { model, trajectory } = opened;
  const read = () =>
    runInTrajectory(trajectory, async () => {
      const result = streamText({ model: model.languageModel, prompt, onError: () => undefined });
      return await result.text;
    });
  await expect(read()).rejects.toThrow();
  expect(trajectory.histories).toHaveLength(0);
  expect(await read()).toBe('mild and dry all day');
  expect(trajectory.choices).toHaveLength(1);
});

const schema = z.object({ verdict: z.string() });
const output = Output.object({ schema });

/** Every way to request an object with the AI SDK. */
const structured = {
  'generateText with an output': async (model: LanguageModel) =>
    (await generateText({ model, prompt, output })).output,
  'streamText with an output': async (model: LanguageModel) =>
    await streamText({ model, prompt, output }).output,
  'ToolLoopAgent with an output, generated': async (model: LanguageModel) =>
    (await new ToolLoopAgent({ model, output }).generate({ prompt })).output,
  'ToolLoopAgent with an output, streamed': async (model: LanguageModel) =>
    await (await new ToolLoopAgent({ model, output }).stream({ prompt })).output,
  generateObject: async (model: LanguageModel) => (await generateObject({ model, prompt, schema })).object,
  streamObject: async (model: LanguageModel) => {
    const { partialObjectStream, object } = streamObject({ model, prompt, schema });
    for await (const _ of partialObjectStream);
    return object;
  },
};

test.each(Object.entries(structured))(
  '%s asks for a schema, and is recorded as it was sampled',
  async (_, ask) => {
    await using opened = await open(() => ({ text: '{ "verdict" :  "done" }' }));
    const { service, model, trajectory } = opened;
    expect(await runInTrajectory(trajectory, () => ask(model.languageModel))).toEqual({ verdict: 'done' });
    expect(service.requests).toMatchObject([
      { response_format: { type: 'json_schema', json_schema: { schema: { required: ['verdict'] } } } },
    ]);
    expect(trajectory.choices).toMatchObject([{ message: { content: '{ "verdict" :  "done" }' } }]);
    expectExtended(trajectory, service.requests);
  },
);
