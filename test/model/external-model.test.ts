import type { LanguageModelV2 } from '@ai-sdk/provider';
import { generateText, stepCountIs, streamText, ToolLoopAgent, tool, wrapLanguageModel } from 'ai';
import { MockLanguageModelV4, simulateReadableStream } from 'ai/test';
import {
  callBudget,
  currentTrajectory,
  defineEnvironment,
  type Environment,
  externalModel,
  ModelHandle,
  policy,
  type RolloutModel,
  runGroups,
  Trajectory,
  TrajectoryGroup,
  usePolicyAsDefaultProvider,
} from 'martingale';
import { runInTrajectory, submitTraining } from 'martingale/loop';
import { fromTrajectoryRecord, toTrajectoryRecord } from 'martingale/records';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { startFakeService } from './fake-service.ts';
import { saying, streaming } from './mock-replies.ts';

const tools = {
  order: tool({
    inputSchema: z.object({ order: z.number() }),
    execute: ({ order }) => `order ${order} is paid`,
  }),
};
const callsTool = [
  { type: 'reasoning' as const, text: 'I look it up.' },
  { type: 'tool-call' as const, toolCallId: 'c1', toolName: 'order', input: '{ "order" :  12 }' },
];

/** A hosted model: calls the tool, then answers. */
const hosted = () =>
  new MockLanguageModelV4({
    modelId: 'hosted-1',
    doGenerate: async ({ prompt }) => saying(prompt.at(-1)?.role === 'tool' ? 'It is paid.' : callsTool),
    doStream: async ({ prompt }) => ({
      stream: simulateReadableStream({
        chunks: streaming(prompt.at(-1)?.role === 'tool' ? 'It is paid.' : callsTool),
        initialDelayInMs: null,
        chunkDelayInMs: null,
      }),
    }),
  });

const scenario = z.object({ order: z.number() });
const desk = defineEnvironment({
  name: 'desk',
  scenario,
  rollout: async ({ scenario: { order }, model }) => {
    const agent = new ToolLoopAgent({ model: model.languageModel, tools, instructions: 'Be brief.' });
    return (await agent.generate({ prompt: `order ${order}?` })).text;
  },
  rewards: {
    right: ({ outcome }) => Number(outcome.includes('paid')),
    turns: { weight: 0, reward: ({ trajectory }) => trajectory.calls.length },
  },
});

const conversation = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'order 12?' },
  {
    role: 'assistant',
    content: null,
    reasoning_content: 'I look it up.',
    tool_calls: [{ id: 'c1', type: 'function', function: { name: 'order', arguments: '{ "order" :  12 }' } }],
  },
  { role: 'tool', tool_call_id: 'c1', content: 'order 12 is paid' },
  { role: 'assistant', content: 'It is paid.' },
];

const run = <Outcome>(model: RolloutModel, environment: Environment<typeof scenario, Outcome>) =>
  runGroups({ environment, scenarios: [{ order: 12 }], rolloutsPerGroup: 2, model });

describe('an external model', () => {
  test('runs the policy’s environment, and its conversation is recorded as messages', async () => {
    const { groups, counts, sampledTokens } = await run(externalModel(hosted()), desk);
    expect(counts).toEqual({ dispatched: 2, completed: 2, failed: 0, cancelled: 0 });
    expect(sampledTokens).toBe(16);
    for (const trajectory of groups[0]?.trajectories ?? []) {
      expect(trajectory).toMatchObject({
        externalModel: 'hosted-1',
        reward: 1,
        metrics: { right: 1, turns: 2 },
      });
      expect(trajectory.usage).toMatchObject({ turns: 2, tokens: 8, toolCalls: 1 });
      expect(trajectory.promptTokens).toBe(20);
      expect(trajectory.choices).toEqual([]);
      const body = trajectory.toBody();
      expect(body.messages_and_choices).toEqual(conversation);
      expect(body.additional_histories).toBeUndefined();
      expect(body.tools).toMatchObject([{ function: { name: 'order' } }]);
    }
  });

  test('is recorded in the same way if the agent streams', async () => {
    const streamed = defineEnvironment({
      name: 'streamed',
      scenario,
      rollout: ({ scenario: { order }, model }) => {
        const { text } = streamText({
          ...{ model: model.languageModel, tools, instructions: 'Be brief.', stopWhen: stepCountIs(3) },
          prompt: `order ${order}?`,
        });
        return text;
      },
      rewards: { right: ({ outcome }) => Number(outcome === 'It is paid.') },
    });
    const { groups } = await run(externalModel(hosted()), streamed);
    expect(groups[0]?.trajectories[0]?.toBody()).toMatchObject({
      reward: 1,
      messages_and_choices: conversation,
    });
  });

  test('replaces policy() and models that are named by a string', async () => {
    const putBack = usePolicyAsDefaultProvider({ models: ['gpt-x'] });
    const byName = defineEnvironment({
      name: 'by-name',
      scenario,
      rollout: async () => {
        await generateText({ model: 'gpt-x', prompt: 'one' });
        await generateText({ model: policy(), prompt: 'two' });
      },
      rewards: { calls: ({ trajectory }) => trajectory.histories.length },
    });
    const { groups } = await run(externalModel(hosted()), byName);
    putBack();
    expect(groups[0]?.trajectories.map(({ reward }) => reward)).toEqual([2, 2]);
  });

  test('accepts settings, limits and signals as the policy does', async () => {
    const model = hosted();
    const trajectory = new Trajectory({ limits: { tokens: 50, turns: 1 } });
    const cold = externalModel(model, { settings: { temperature: 0, topK: 3 } }).with({
      maxOutputTokens: 80,
    });
    const ask = () =>
      generateText({ model: cold.languageModel, prompt: 'a', temperature: 0.9, topP: 0.5, maxRetries: 0 });
    await runInTrajectory(trajectory, ask);
    expect(model.doGenerateCalls[0]).toMatchObject({
      temperature: 0,
      topP: 0.5,
      topK: 3,
      maxOutputTokens: 50,
    });
    await expect(runInTrajectory(trajectory, ask)).rejects.toThrow('limit of 1 model calls');
    expect(model.doGenerateCalls).toHaveLength(1);

    const stopped = AbortSignal.abort(new Error('over'));
    await runInTrajectory(new Trajectory({ signal: stopped }), ask);
    expect(model.doGenerateCalls[1]?.abortSignal?.reason).toBe(stopped.reason);
  });

  test('frees its slot in the budget with the rollout if its stream is not read', async () => {
    const model = externalModel(hosted(), { budget: callBudget({ concurrency: 1 }) });
    const leaves = defineEnvironment({
      name: 'leaves',
      scenario,
      rollout: async ({ model: { languageModel } }) => {
        await languageModel.doStream({ prompt: [] });
        return 'paid';
      },
      rewards: { right: () => 1 },
    });
    expect((await run(model, leaves)).counts).toMatchObject({ failed: 2 });
    expect((await run(model, desk)).counts).toMatchObject({ completed: 2 });
  });

  test('records nothing of a failed call, and of a retried one only the answer that the agent saw', async () => {
    let calls = 0;
    const model = new MockLanguageModelV4({
      doGenerate: async () => {
        if (calls++ === 0) throw new TypeError('the line is down');
        return saying('here');
      },
    });
    const trajectory = new Trajectory();
    const ask = () => generateText({ model: externalModel(model).languageModel, prompt: 'a' });
    await runInTrajectory(trajectory, async () => {
      await expect(ask()).rejects.toThrow('the line is down');
      expect(trajectory.histories).toHaveLength(0);
      await ask();
    });
    expect(trajectory.calls).toMatchObject([{ index: 1, choice: { message: { content: 'here' } } }]);
  });

  test('begins a new conversation if the agent edits one', async () => {
    const model = externalModel(
      new MockLanguageModelV4({ doGenerate: async () => saying('ok') }),
    ).languageModel;
    const trajectory = new Trajectory();
    const user = (content: string) => ({ role: 'user' as const, content });
    const said = { role: 'assistant' as const, content: 'ok' };
    await runInTrajectory(trajectory, async () => {
      await generateText({ model, messages: [user('a')] });
      await generateText({ model, messages: [user('a'), said, user('b')] });
      await generateText({ model, messages: [user('EDITED'), said, user('b')] });
      await generateText({ model, messages: [user('a'), said, user('b'), said, user('c')] });
    });
    expect(trajectory.histories.map(({ entries }) => entries.length)).toEqual([6, 4]);
  });

  test('replaces parts that are not text with their type', async () => {
    const model = externalModel(
      new MockLanguageModelV4({ doGenerate: async () => saying('a cat') }),
    ).languageModel;
    const trajectory = new Trajectory();
    const image = { type: 'file' as const, mediaType: 'image/png', data: new Uint8Array([1]) };
    await runInTrajectory(trajectory, () =>
      generateText({
        model,
        messages: [{ role: 'user', content: [{ type: 'text', text: 'what?' }, image] }],
      }),
    );
    expect(trajectory.histories[0]?.entries).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'what?' },
          { type: 'text', text: '[file image/png]' },
        ],
      },
      { role: 'assistant', content: 'a cat' },
    ]);
  });

  test('does not record the calls of the service’s model that it may wrap', async () => {
    const service = await startFakeService({ policy: () => ({ text: 'x' }) });
    await using _ = service;
    const { languageModel } = new ModelHandle({ client: service.client, name: 'local/p/n:step1' });
    expect(() => externalModel(languageModel)).toThrow(expect.objectContaining({ code: 'external_model' }));
    expect(() => externalModel(policy())).toThrow(expect.objectContaining({ code: 'external_model' }));
    const wrapped = externalModel(wrapLanguageModel({ model: languageModel, middleware: {} }));
    const trajectory = new Trajectory();
    await runInTrajectory(trajectory, () => generateText({ model: wrapped.languageModel, prompt: 'a' }));
    expect(trajectory.choices).toHaveLength(0);
    expect(trajectory.histories).toHaveLength(1);
  });
});

describe('its trajectories', () => {
  test('are refused by a training job, by name', async () => {
    const service = await startFakeService({ policy: () => ({ text: 'x' }) });
    await using _ = service;
    const model = new ModelHandle({ client: service.client, name: 'local/p/n', id: 'id' });
    const { groups } = await run(externalModel(hosted()), desk);
    const group = groups[0]?.toTrajectoryGroup() ?? new TrajectoryGroup({ trajectories: [] });
    await expect(submitTraining({ model, groups: [group] })).rejects.toThrow(
      expect.objectContaining({ code: 'not_trainable' }),
    );
    await expect(submitTraining({ model, groups: [group] })).rejects.toThrow('the external model "hosted-1"');
    expect(service.jobs).toHaveLength(0);
  });

  test('are unchanged when they are read back, and still not trainable', async () => {
    const { groups } = await run(externalModel(hosted()), desk);
    const [trajectory] = groups[0]?.trajectories ?? [];
    if (!trajectory) throw new TypeError('no trajectory');
    const again = fromTrajectoryRecord(JSON.parse(JSON.stringify(toTrajectoryRecord(trajectory))));
    expect(JSON.stringify(again.toBody())).toBe(JSON.stringify(trajectory.toBody()));
    expect(JSON.stringify(again.calls)).toBe(JSON.stringify(trajectory.calls));
    const { turns, tokens, toolCalls } = trajectory.usage;
    expect(again.usage).toMatchObject({ turns, tokens, toolCalls });
    expect(again.promptTokens).toBe(trajectory.promptTokens);
    expect(toTrajectoryRecord(again)).toEqual(toTrajectoryRecord(trajectory));
    expect(() => again.requireTrainable()).toThrow(expect.objectContaining({ code: 'not_trainable' }));
  });

  test('of a policy can be trained on', () => {
    expect(() => new Trajectory().requireTrainable()).not.toThrow();
  });
});

describe('the model of an external model', () => {
  test('a model for an earlier version of the AI SDK is adapted', async () => {
    const old: LanguageModelV2 = {
      specificationVersion: 'v2',
      provider: 'old',
      modelId: 'old-1',
      supportedUrls: {},
      doGenerate: async () => ({
        content: [{ type: 'text', text: 'old' }],
        finishReason: 'stop',
        usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
        warnings: [],
      }),
      doStream: () => Promise.reject(new TypeError('not asked for')),
    };
    expect((await generateText({ model: externalModel(old).languageModel, prompt: 'a' })).text).toBe('old');
  });

  test('an id is looked up in the default provider, and refused without one', () => {
    const before = globalThis.AI_SDK_DEFAULT_PROVIDER;
    globalThis.AI_SDK_DEFAULT_PROVIDER = undefined;
    try {
      expect(() => externalModel('gpt-x')).toThrow('The external model "gpt-x" is an id');
      usePolicyAsDefaultProvider({ models: 'all' });
      expect(() => externalModel('gpt-x')).toThrow('is a model of the service');
    } finally {
      globalThis.AI_SDK_DEFAULT_PROVIDER = before;
    }
  });

  test('it has the name that it is given, else that of its model', () => {
    expect(externalModel(hosted())).toMatchObject({ name: 'hosted-1', step: undefined });
    expect(externalModel(hosted(), { name: 'yesterday' }).name).toBe('yesterday');
  });
});

describe('its endpoint', () => {
  test('is the given one, and a rollout that calls only the endpoint completes without a record', async () => {
    const endpoint = { baseUrl: 'http://127.0.0.1:1/v1', apiKey: 'mine' };
    const outside = defineEnvironment({
      name: 'outside',
      scenario,
      rollout: ({ model }) => model.endpoint(),
      rewards: { right: ({ outcome }) => Number(outcome === endpoint) },
    });
    const { groups, counts } = await run(externalModel(hosted(), { endpoint }), outside);
    expect(counts.completed).toBe(2);
    expect(groups[0]?.trajectories[0]).toMatchObject({ reward: 1, externalModel: 'hosted-1', histories: [] });
    expect(currentTrajectory()).toBeUndefined();
  });

  test('is refused if there is none', async () => {
    await expect(externalModel(hosted()).endpoint()).rejects.toThrow(
      'the endpoint of the external model "hosted-1", which has none',
    );
  });
});
