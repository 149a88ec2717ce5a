import type { LanguageModelV4StreamPart } from '@ai-sdk/provider';
import {
  generateText,
  NoObjectGeneratedError,
  Output,
  stepCountIs,
  streamText,
  ToolLoopAgent,
  tool,
} from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { defineEnvironment, externalModel, type RolloutContext } from 'martingale';
import { expect, test, vi } from 'vitest';
import { z } from 'zod';
import { EnvironmentError } from '../../../src/environment/index.ts';
import { runRollout } from '../../../src/rollout/run-rollout.ts';
import type { FakePolicy } from '../../model/fake-service.ts';
import { streaming, usage } from '../../model/mock-replies.ts';
import { noScenario, rolloutOptions, runOnce } from '../run-once.ts';

const base = { name: 'x', scenario: z.object({}) };
const rewards = { right: ({ outcome }: { outcome: unknown }) => (outcome === 'unreadable' ? -1 : 1) };
const yes: FakePolicy = () => ({ text: 'yes' });
const ask = async ({ model, signal }: RolloutContext<object>, prompt = 'well?') =>
  (await generateText({ model: model.languageModel, prompt, abortSignal: signal, maxRetries: 0 })).text;

const readObject = async ({ model, signal }: RolloutContext<object>) =>
  (
    await generateText({
      model: model.languageModel,
      prompt: 'an object',
      output: Output.object({ schema: z.object({ a: z.number() }) }),
      abortSignal: signal,
    })
  ).output.a.toString();

test('an output that cannot be read is scored by the outcome that `onError` returns', async () => {
  const rollout = await runOnce(
    defineEnvironment({
      ...base,
      rollout: readObject,
      onError: ({ error }) => (NoObjectGeneratedError.isInstance(error) ? 'unreadable' : undefined),
      rewards,
    }),
    noScenario,
    yes,
  );
  expect(rollout).toMatchObject({ status: 'completed', reward: -1, outcome: 'unreadable' });
  const { trajectory } = rollout;
  expect(trajectory.choices).toHaveLength(1);
  expect(trajectory.stopReason).toBe('error:AI_NoObjectGeneratedError');
  expect(trajectory.toBody()).toMatchObject({
    reward: -1,
    metadata: { stop_reason: 'error:AI_NoObjectGeneratedError' },
    metrics: { right: -1, scored_errors: 1 },
  });
  expect(trajectory.logs).toEqual([expect.stringMatching(/^`onError` returned an outcome for AI_NoObject/)]);
});

test('without `onError`, or if it returns undefined or throws the same error, the rollout fails', async () => {
  const handlers = [
    {},
    { onError: () => undefined },
    {
      onError: ({ error }: { error: unknown }) => {
        throw error;
      },
    },
  ];
  for (const handler of handlers) {
    const environment = defineEnvironment({ ...base, rollout: readObject, ...handler, rewards });
    const rollout = await runOnce(environment, noScenario, yes);
    expect(rollout).toMatchObject({ status: 'failed', failure: { code: 'AI_NoObjectGeneratedError' } });
    expect(rollout.trajectory.reward).toBeNull();
    expect(rollout.trajectory.stopReason).toBeNull();
  }
});

test('an `onError` that throws fails its rollout with both errors', async () => {
  const environment = defineEnvironment({
    ...base,
    rollout: readObject,
    onError: () => {
      throw new TypeError('no idea');
    },
    rewards,
  });
  expect(await runOnce(environment, noScenario, yes)).toMatchObject({
    status: 'failed',
    failure: {
      code: 'on_error_failed',
      message: expect.stringMatching(/`onError` threw: no idea. It was called for: No object generated/),
    },
  });
});

test('a rollout whose agent returns does not call it and counts no error', async () => {
  const onError = vi.fn(() => 'unreadable');
  const environment = defineEnvironment({ ...base, rollout: (context) => ask(context), onError, rewards });
  const rollout = await runOnce(environment, noScenario, yes);
  expect(rollout).toMatchObject({ status: 'completed', reward: 1, outcome: 'yes' });
  expect(rollout.trajectory.metrics.scored_errors).toBe(0);
  expect(onError).not.toHaveBeenCalled();
});

test('`onError` gets the state, the trajectory and the error, and its unfinished work is ended', async () => {
  const environment = defineEnvironment({
    ...base,
    setup: () => ({ moves: ['a'] }),
    rollout: async (context): Promise<string[]> => {
      await generateText({ model: context.model.languageModel, prompt: 'well?' });
      context.state.moves.push('b');
      throw new RangeError('no such move');
    },
    onError: async ({ error, state, trajectory, seed, scenario, signal }) => {
      expect({ error, seed, scenario, aborted: signal.aborted, choices: trajectory.choices.length }).toEqual({
        error: new RangeError('no such move'),
        seed: 7,
        scenario: {},
        aborted: false,
        choices: 1,
      });
      return state.moves;
    },
    rewards: { moves: ({ outcome }) => outcome.length },
  });
  expect(await runOnce(environment, noScenario, yes)).toMatchObject({
    status: 'completed',
    reward: 2,
    trajectory: { stopReason: 'error:RangeError' },
  });
});

test('a rollout with an outcome and no recorded call fails', async () => {
  const environment = defineEnvironment({
    ...base,
    rollout: async (): Promise<string> => {
      throw new Error('at once');
    },
    onError: () => 'unreadable',
    rewards,
  });
  expect(await runOnce(environment, noScenario, yes)).toMatchObject({
    status: 'failed',
    failure: { code: 'nothing_recorded' },
  });
});

test('group rewards see the outcome of an error', async () => {
  const environment = defineEnvironment({
    ...base,
    rollout: readObject,
    onError: () => 'unreadable',
    groupRewards: { all: ({ members }) => members.map(({ outcome }) => outcome.length) },
  });
  const rollout = await runOnce(environment, noScenario, yes);
  if (rollout.status !== 'completed') throw new Error(rollout.failure.message);
  expect(rollout).toMatchObject({ status: 'completed', outcome: 'unreadable' });
  expect(
    await environment.groupScoring?.score({
      scenario: {},
      signal: new AbortController().signal,
      timeoutMs: 1000,
      members: [rollout],
    }),
  ).toEqual(['unreadable'.length]);
});

const answered: FakePolicy = ({ messages }) => (messages.length === 1 ? { text: 'yes' } : refuse(500));
const refuse = (status: number) => ({ refusal: { status, body: { detail: 'not now' } } });
const talk = async ({ model, signal }: RolloutContext<object>, first: string, wrap = false) => {
  await generateText({ model: model.languageModel, prompt: first, abortSignal: signal });
  try {
    await generateText({
      model: model.languageModel,
      messages: [
        { role: 'user', content: first },
        { role: 'user', content: 'and then?' },
      ],
      maxRetries: 0,
      abortSignal: signal,
    });
  } catch (error) {
    throw wrap ? new Error('my agent failed') : error;
  }
  return 'done';
};

test.each([
  ['a service that fails', 500],
  ['a service that refuses', 403],
  ['a request that is wrong', 422],
])('%s is never made an outcome, however the agent wraps it', async (_, status) => {
  const policy: FakePolicy = ({ messages }) => (messages.length === 1 ? { text: 'yes' } : refuse(status));
  for (const wrap of [false, true]) {
    const onError = vi.fn(() => 'unreadable');
    const environment = defineEnvironment({
      ...base,
      rollout: (context) => talk(context, 'hello', wrap),
      onError,
      rewards,
    });
    const rollout = await runOnce(environment, noScenario, policy);
    expect(rollout.status).toBe('failed');
    expect(onError).not.toHaveBeenCalled();
  }
});

test('a stream whose service fails is not the policy’s output', async () => {
  const onError = vi.fn(() => 'unreadable');
  const environment = defineEnvironment({
    ...base,
    rollout: async ({ model }) => {
      await generateText({ model: model.languageModel, prompt: 'first' });
      const { text } = streamText({
        model: model.languageModel,
        messages: [
          { role: 'user', content: 'a' },
          { role: 'user', content: 'b' },
        ],
        maxRetries: 0,
        onError: () => undefined,
      });
      return await text;
    },
    onError,
    rewards,
  });
  expect(await runOnce(environment, noScenario, answered)).toMatchObject({
    status: 'failed',
    failure: { code: 'AI_NoOutputGeneratedError' },
  });
  expect(onError).not.toHaveBeenCalled();
});

test('a call that the agent aborted is not the policy’s mistake', async () => {
  const onError = vi.fn(() => 'unreadable');
  const requested = Promise.withResolvers<void>();
  const policy: FakePolicy = async ({ messages }) => {
    if (messages.length === 1) return { text: 'yes' };
    requested.resolve();
    return await new Promise(() => undefined);
  };
  const environment = defineEnvironment({
    ...base,
    rollout: async ({ model }) => {
      await generateText({ model: model.languageModel, prompt: 'first' });
      const impatient = new AbortController();
      void requested.promise.then(() => impatient.abort(new DOMException('too slow', 'TimeoutError')));
      const messages = [
        { role: 'user' as const, content: 'a' },
        { role: 'user' as const, content: 'b' },
      ];
      const { text } = await generateText({
        model: model.languageModel,
        messages,
        abortSignal: impatient.signal,
      });
      return text;
    },
    onError,
    rewards,
  });
  expect(await runOnce(environment, noScenario, policy)).toMatchObject({
    status: 'failed',
    failure: { code: 'TimeoutError' },
  });
  expect(onError).not.toHaveBeenCalled();
});

test('a failed call of another model or a judge is not the policy’s mistake', async () => {
  const onError = vi.fn(() => 'unreadable');
  const other = defineEnvironment({
    ...base,
    rollout: async (context) => {
      await ask(context).catch(() => undefined);
      throw new Error('swallowed');
    },
    onError,
    rewards,
  });
  expect(await runOnce(other, noScenario, () => ({ text: 'yes', model: 'base' }))).toMatchObject({
    status: 'failed',
    failure: { code: 'unexpected_call_base_model' },
  });
  const judged = defineEnvironment({
    ...base,
    rollout: async (context) => {
      await ask(context);
      throw new Error('no verdict', {
        cause: new EnvironmentError('reward_failed', 'The reward "judge" did not answer.'),
      });
    },
    onError,
    rewards,
  });
  expect(await runOnce(judged, noScenario, yes)).toMatchObject({
    status: 'failed',
    failure: { code: 'Error' },
  });
  expect(onError).not.toHaveBeenCalled();
});

test('a used-up limit is not an error: without `atLimit` it fails the rollout', async () => {
  const onError = vi.fn(() => 'unreadable');
  const environment = defineEnvironment({
    ...base,
    limits: { turns: 1 },
    rollout: async (context) => `${await ask(context)}${await ask(context)}`,
    onError,
    rewards,
  });
  expect(await runOnce(environment, noScenario, yes)).toMatchObject({
    status: 'failed',
    failure: { code: 'turn_limit' },
  });
  expect(onError).not.toHaveBeenCalled();
});

test('it is not called after a deadline', async () => {
  const onError = vi.fn(() => 'unreadable');
  const ended = Promise.withResolvers<void>();
  const environment = defineEnvironment({
    ...base,
    rollout: async (context): Promise<string> => {
      await ask(context);
      await new Promise((resolve) => context.signal.addEventListener('abort', resolve));
      setImmediate(ended.resolve);
      throw new Error('interrupted');
    },
    onError,
    rewards,
  });
  const rollout = await runOnce(environment, noScenario, yes, { timeoutMs: 300 });
  expect(rollout).toMatchObject({ status: 'failed', failure: { code: 'rollout_timeout' } });
  await ended.promise;
  expect(onError).not.toHaveBeenCalled();
});

test('a reward that throws is a failure, even after `onError`', async () => {
  const onError = vi.fn(() => 'unreadable');
  const environment = defineEnvironment({
    ...base,
    rollout: (context) => ask(context),
    onError,
    rewards: {
      broken: () => {
        throw new Error('oh');
      },
    },
  });
  expect(await runOnce(environment, noScenario, yes)).toMatchObject({
    status: 'failed',
    failure: { code: 'reward_failed' },
  });
  expect(onError).not.toHaveBeenCalled();
});

test('an agent that throws at an invalid tool call is scored', async () => {
  const environment = defineEnvironment({
    ...base,
    rollout: async ({ model, signal }) => {
      const agent = new ToolLoopAgent({
        model: model.languageModel,
        tools: { look: tool({ inputSchema: z.object({ at: z.number() }), execute: () => 'nothing' }) },
        stopWhen: stepCountIs(1),
      });
      const { content } = await agent.generate({ prompt: 'look', abortSignal: signal });
      const wrong = content.find((part) => part.type === 'tool-call' && part.invalid);
      if (wrong?.type === 'tool-call') throw wrong.error;
      return 'looked';
    },
    onError: ({ error }) => (error instanceof Error ? 'unreadable' : undefined),
    rewards,
  });
  const policy: FakePolicy = () => ({ toolCalls: [{ name: 'lok', arguments: '{}' }] });
  const rollout = await runOnce(environment, noScenario, policy);
  expect(rollout).toMatchObject({ status: 'completed', reward: -1 });
  expect(rollout.trajectory.stopReason).toBe('error:AI_NoSuchToolError');
});

test('`onError` is not called if an external model’s stream failed', async () => {
  const onError = vi.fn(() => 'unreadable');
  const environment = defineEnvironment({
    ...base,
    rollout: async ({ model }) => {
      const first = streamText({ model: model.languageModel, prompt: 'a' });
      const second = streamText({ model: model.languageModel, prompt: 'b', onError: () => undefined });
      await first.text;
      let text = '';
      for await (const part of second.textStream) text += part;
      if (text === '') throw new SyntaxError('Nothing was said.');
      return text;
    },
    onError,
    rewards,
  });
  const overloaded: LanguageModelV4StreamPart[] = [
    { type: 'stream-start', warnings: [] },
    { type: 'error', error: new Error('overloaded') },
    { type: 'finish', finishReason: { unified: 'error', raw: undefined }, usage: usage(1, 0) },
  ];
  const model = new MockLanguageModelV4({
    doStream: async ({ prompt }) => ({
      stream: ReadableStream.from(JSON.stringify(prompt).includes('"b"') ? overloaded : streaming('yes')),
    }),
  });
  const rollout = await runRollout(rolloutOptions(environment, noScenario, externalModel(model)));
  expect(rollout).toMatchObject({ status: 'failed', failure: { message: 'Nothing was said.' } });
  expect(rollout.trajectory.log.calls).toHaveLength(1);
  expect(onError).not.toHaveBeenCalled();
});
