import {
  customProvider,
  embed,
  generateImage,
  generateText,
  Output,
  stepCountIs,
  streamText,
  ToolLoopAgent,
  tool,
} from 'ai';
import { MockEmbeddingModelV4, MockLanguageModelV3, MockLanguageModelV4 } from 'ai/test';
import {
  defineEnvironment,
  ModelHandle,
  runGroups,
  Trajectory,
  usePolicyAsDefaultProvider,
} from 'martingale';
import { runInTrajectory } from 'martingale/loop';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { runWithModel } from '../../src/model/index.ts';
import { startFakeService } from './fake-service.ts';
import { saying } from './mock-replies.ts';

const name = 'local/shop/desk:step3';
const order = tool({ inputSchema: z.object({ order: z.number() }), execute: () => 'paid' });
let before: typeof globalThis.AI_SDK_DEFAULT_PROVIDER;

beforeEach(() => {
  before = globalThis.AI_SDK_DEFAULT_PROVIDER;
});
afterEach(() => {
  globalThis.AI_SDK_DEFAULT_PROVIDER = before;
});

async function open() {
  const service = await startFakeService({
    policy: ({ messages }) =>
      messages.at(-1)?.role === 'tool'
        ? { text: '{"verdict":"done"}' }
        : { toolCalls: [{ name: 'order', arguments: '{ "order": 1 }' }] },
  });
  return { service, model: new ModelHandle({ client: service.client, name }) };
}

/** Ordinary agents: they know a model name, and nothing about rollouts. */
const agents = {
  ToolLoopAgent: async () => {
    const output = Output.object({ schema: z.object({ verdict: z.string() }) });
    const agent = new ToolLoopAgent({ model: 'gpt-x', tools: { order }, output });
    return (await agent.generate({ prompt: 'a' })).output;
  },
  generateText: async () => {
    const stopWhen = stepCountIs(4);
    return JSON.parse((await generateText({ model: 'gpt-x', tools: { order }, stopWhen, prompt: 'a' })).text);
  },
  streamText: async () => {
    const stopWhen = stepCountIs(4);
    return JSON.parse(await streamText({ model: 'gpt-x', tools: { order }, stopWhen, prompt: 'a' }).text);
  },
};

test.each(Object.entries(agents))(
  '%s that names its model by a string is recorded, in many rollouts at once',
  async (_, run) => {
    const { service, model } = await open();
    await using _service = service;
    const putBack = usePolicyAsDefaultProvider({ models: ['gpt-x'] });
    const environment = defineEnvironment({
      name: 'by-name',
      scenario: z.object({ id: z.number() }),
      rollout: run,
      rewards: { done: ({ outcome }) => Number(outcome.verdict === 'done') },
    });
    const { groups, counts } = await runGroups({
      environment,
      scenarios: Array.from({ length: 20 }, (_, id) => ({ id })),
      rolloutsPerGroup: 2,
      model,
    });
    putBack();
    expect(counts.completed).toBe(40);
    for (const { trajectory } of groups.flatMap(({ rollouts }) => rollouts)) {
      expect(trajectory.histories).toHaveLength(1);
      expect(trajectory.choices).toHaveLength(2);
      expect(trajectory.reward).toBe(1);
    }
  },
);

describe('other models', () => {
  const inRollout = async <Result>(work: () => Promise<Result>) => {
    const { service, model } = await open();
    await using _ = service;
    const trajectory = new Trajectory({ policy: name });
    const result = await runInTrajectory(trajectory, () => runWithModel(model, work));
    return { result, trajectory };
  };

  test('are called through the other provider and are not recorded', async () => {
    const otherwise = customProvider({
      languageModels: { 'judge-1': new MockLanguageModelV4({ doGenerate: saying('7') }) },
      embeddingModels: {
        small: new MockEmbeddingModelV4({ doEmbed: async () => ({ embeddings: [[1]], warnings: [] }) }),
      },
    });
    usePolicyAsDefaultProvider({ models: ['gpt-x'], otherwise });
    const { result, trajectory } = await inRollout(async () => ({
      text: (await generateText({ model: 'judge-1', prompt: 'score' })).text,
      embedding: (await embed({ model: 'small', value: 'a' })).embedding,
    }));
    expect(result).toEqual({ text: '7', embedding: [1] });
    expect(trajectory.histories).toHaveLength(0);
    await expect(generateText({ model: 'judge-2', prompt: 'score' })).rejects.toThrow('judge-2');
  });

  test('of an earlier version of the AI SDK are adapted', async () => {
    const old = new MockLanguageModelV3({
      doGenerate: async () => ({
        content: [{ type: 'text', text: 'old' }],
        finishReason: { unified: 'stop', raw: 'stop' },
        usage: {
          inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
          outputTokens: { total: 1, text: 1, reasoning: 0 },
        },
        warnings: [],
      }),
    });
    const missing = () => {
      throw new TypeError('none');
    };
    usePolicyAsDefaultProvider({
      models: [],
      otherwise: {
        specificationVersion: 'v3',
        languageModel: () => old,
        embeddingModel: missing,
        imageModel: missing,
      },
    });
    expect((await generateText({ model: 'old', prompt: 'a' })).text).toBe('old');
  });

  test('are refused by name if there is no other provider', async () => {
    usePolicyAsDefaultProvider({ models: ['gpt-x', 'gpt-y'] });
    const calls: (() => Promise<unknown>)[] = [
      () => generateText({ model: 'gpt-z', prompt: 'a' }),
      () => embed({ model: 'small', value: 'a' }),
      () => generateImage({ model: 'painter', prompt: 'a' }),
    ];
    const named = ['language model "gpt-z"', 'embedding model "small"', 'image model "painter"'];
    for (const [at, ask] of calls.entries()) {
      const refusal = await Promise.resolve()
        .then(ask)
        .then(undefined, (error: unknown) => error);
      expect(refusal).toMatchObject({ code: 'not_the_policy' });
      expect(refusal).toMatchObject({ message: expect.stringContaining(named[at] ?? '') });
      expect(refusal).toMatchObject({ message: expect.stringContaining('"gpt-x", "gpt-y"') });
    }
  });

  test('with `all`, every language model is the policy, and an embedding model is not', async () => {
    usePolicyAsDefaultProvider({ models: 'all' });
    const { trajectory } = await inRollout(() => generateText({ model: 'whatever', prompt: 'a' }));
    expect(trajectory.choices).toHaveLength(1);
    await expect(generateText({ model: 'whatever', prompt: 'a' })).rejects.toThrow(
      expect.objectContaining({ code: 'no_current_model' }),
    );
    await expect(Promise.resolve().then(() => embed({ model: 'small', value: 'a' }))).rejects.toThrow(
      'embedding model "small"',
    );
  });
});

test('the earlier default provider is restored, even if there was none', () => {
  const mine = customProvider({});
  globalThis.AI_SDK_DEFAULT_PROVIDER = mine;
  const putBack = usePolicyAsDefaultProvider({ models: 'all' });
  expect(globalThis.AI_SDK_DEFAULT_PROVIDER).not.toBe(mine);
  putBack();
  expect(globalThis.AI_SDK_DEFAULT_PROVIDER).toBe(mine);
  globalThis.AI_SDK_DEFAULT_PROVIDER = undefined;
  usePolicyAsDefaultProvider({ models: 'all' })();
  expect(globalThis.AI_SDK_DEFAULT_PROVIDER).toBeUndefined();
});

describe('an agent that names its own model without a default provider', () => {
  const saying = 'usePolicyAsDefaultProvider({ models: [';

  test.each(Object.entries(agents))(
    'by %s fails and is told what makes the name the policy',
    async (_, run) => {
      globalThis.AI_SDK_DEFAULT_PROVIDER = undefined;
      vi.stubEnv('AI_GATEWAY_API_KEY', undefined);
      vi.spyOn(console, 'error').mockReturnValue(undefined);
      const { service, model } = await open();
      await using _service = service;
      for (const onError of [undefined, () => ({ verdict: 'none' })]) {
        const environment = defineEnvironment({
          name: 'by-name',
          scenario: z.object({}),
          rollout: run,
          rewards: { done: () => 1 },
          onError,
        });
        const { groups } = await runGroups({ environment, scenarios: [{}], rolloutsPerGroup: 1, model });
        const [rollout] = groups.flatMap(({ rollouts }) => rollouts);
        // A terminal shows the first 300 characters.
        const message = rollout?.status === 'failed' ? rollout.failure.message.slice(0, 300) : '';
        expect(message).toContain(saying);
        expect(message).toContain('the agent names its own model');
        expect(message).toContain('means the policy');
      }
    },
  );

  test('is told the same if it catches the error', async () => {
    globalThis.AI_SDK_DEFAULT_PROVIDER = undefined;
    vi.stubEnv('AI_GATEWAY_API_KEY', undefined);
    const { service, model } = await open();
    await using _service = service;
    const environment = defineEnvironment({
      name: 'by-name',
      scenario: z.object({}),
      rollout: () => generateText({ model: 'gpt-x', prompt: 'a' }).then(({ text }) => text, String),
      rewards: { done: () => 1 },
    });
    const { groups } = await runGroups({ environment, scenarios: [{}], rolloutsPerGroup: 1, model });
    expect(groups[0]?.rollouts[0]).toMatchObject({
      status: 'failed',
      failure: { code: 'nothing_recorded', message: expect.stringContaining(saying) },
    });
  });
});
