import { createAnthropic } from '@ai-sdk/anthropic';
import { APICallError } from '@ai-sdk/provider';
import Anthropic from '@anthropic-ai/sdk';
import { generateText, tool } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { defineEnvironment, externalModel, type ModelEndpoint, type RolloutContext } from 'martingale';
import { OpenAI } from 'openai';
import { describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { runRollout } from '../../../src/rollout/run-rollout.ts';
import type { FakePolicy } from '../../model/fake-service.ts';
import { saying } from '../../model/mock-replies.ts';
import { noScenario, rolloutOptions, runOnce } from '../run-once.ts';

const base = { name: 'x', scenario: z.object({}) };
const rewards = { short: ({ outcome }: { outcome: string }) => (outcome === 'too long' ? -1 : 1) };

/** Its context holds one message. */
const small: FakePolicy = ({ messages }) =>
  messages.length === 1
    ? { text: 'yes' }
    : {
        refusal: {
          status: 400,
          body: {
            detail: 'The prompt is too long.',
            error: { message: 'x', code: 'context_length_exceeded' },
          },
        },
      };
const grow = async ({ model, signal }: RolloutContext<object>) => {
  const first = { role: 'user' as const, content: 'a' };
  await generateText({ model: model.languageModel, messages: [first], abortSignal: signal });
  await generateText({ model: model.languageModel, messages: [first, first], abortSignal: signal });
  return 'fits';
};

test('without `onError` and `atLimit`, a conversation beyond the context fails its rollout', async () => {
  const environment = defineEnvironment({ ...base, rollout: grow, rewards });
  expect(await runOnce(environment, noScenario, small)).toMatchObject({
    status: 'failed',
    failure: { code: 'context_length_exceeded' },
  });
});

test('`atLimit` handles a conversation beyond the context, before `onError`', async () => {
  const onError = vi.fn(() => 'unreadable');
  const environment = defineEnvironment({
    ...base,
    rollout: grow,
    atLimit: ({ reason }) => (reason === 'context_limit' ? 'too long' : reason),
    onError,
    rewards,
  });
  const rollout = await runOnce(environment, noScenario, small);
  expect(rollout).toMatchObject({ status: 'completed', reward: -1, outcome: 'too long' });
  expect(rollout.trajectory.stopReason).toBe('context_limit');
  expect(onError).not.toHaveBeenCalled();
});

test('without `atLimit`, `onError` handles it', async () => {
  const environment = defineEnvironment({ ...base, rollout: grow, onError: () => 'too long', rewards });
  const rollout = await runOnce(environment, noScenario, small);
  expect(rollout).toMatchObject({ status: 'completed', reward: -1 });
  expect(rollout.trajectory.stopReason).toBe('context_limit');
  expect(rollout.trajectory.metrics.scored_errors).toBe(1);
});

test('an agent that shortens its conversation and continues has reached no limit', async () => {
  const atLimit = vi.fn(() => 'too long');
  const environment = defineEnvironment({
    ...base,
    rollout: async (context) => {
      await grow(context).catch(() => undefined);
      const { text } = await generateText({ model: context.model.languageModel, prompt: 'in short' });
      return text;
    },
    atLimit,
    rewards,
  });
  expect(await runOnce(environment, noScenario, small)).toMatchObject({
    status: 'completed',
    outcome: 'yes',
  });
  expect(atLimit).not.toHaveBeenCalled();
});

test('an error after a reply cut at the context’s end is the limit; after one cut by `maxOutputTokens`, an error', async () => {
  const reasons: (string | null)[] = [];
  for (const maxOutputTokens of [undefined, 4]) {
    const environment = defineEnvironment({
      ...base,
      rollout: async ({ model }): Promise<string> => {
        const settings = maxOutputTokens === undefined ? {} : { maxOutputTokens };
        const { text } = await generateText({ model: model.languageModel, prompt: 'a', ...settings });
        throw new SyntaxError(`${text} ends too soon`);
      },
      atLimit: ({ reason }) => reason,
      onError: () => 'error',
      rewards,
    });
    const policy: FakePolicy = () => ({ text: 'yes', finishReason: 'length' });
    const rollout = await runOnce(environment, noScenario, policy);
    expect(rollout.status).toBe('completed');
    reasons.push(rollout.trajectory.stopReason);
  }
  expect(reasons).toEqual(['context_limit', 'error:SyntaxError']);
});

type Turn = { role: 'user' | 'assistant'; content: string };
const first: Turn[] = [{ role: 'user', content: 'a' }];
const second: Turn[] = [...first, { role: 'assistant', content: 'yes' }, ...first];
const request = (messages: Turn[]) => ({ model: 'x', max_tokens: 9, messages });

test.each<[string, (endpoint: ModelEndpoint, messages: Turn[]) => PromiseLike<unknown>, object]>([
  [
    'openai',
    ({ baseUrl, apiKey }, messages) =>
      new OpenAI({ baseURL: baseUrl, apiKey }).chat.completions.create(request(messages)),
    { code: 'context_length_exceeded' },
  ],
  [
    '@anthropic-ai/sdk',
    ({ baseUrl, apiKey }, messages) =>
      new Anthropic({ baseURL: baseUrl, apiKey, authToken: null }).messages.create(request(messages)),
    { errorCode: 'context_length_exceeded', apiMessage: expect.stringMatching(/^prompt is too long/) },
  ],
  [
    '@ai-sdk/anthropic',
    ({ baseUrl, apiKey }, messages) =>
      generateText({ model: createAnthropic({ baseURL: baseUrl, apiKey })('x'), messages }),
    { statusCode: 400 },
  ],
])(
  'an agent on %s behind the endpoint gets the error of its client, and reaches the same limit',
  async (_, ask, known) => {
    for (const own of [true, false]) {
      const errors: unknown[] = [];
      const environment = defineEnvironment({
        ...base,
        rollout: async ({ model }) => {
          const endpoint = await model.endpoint();
          await ask(endpoint, first);
          try {
            await ask(endpoint, second);
          } catch (error) {
            errors.push(error);
            throw own ? new Error('my agent failed') : error;
          }
          return 'fits';
        },
        atLimit: () => 'too long',
        rewards,
      });
      const rollout = await runOnce(environment, noScenario, small);
      expect(rollout).toMatchObject({ status: 'completed', reward: -1 });
      expect(rollout.trajectory.stopReason).toBe('context_limit');
      expect(errors).toMatchObject([known]);
    }
  },
);

test('a first prompt beyond the context fails the rollout, and says so', async () => {
  const environment = defineEnvironment({
    ...base,
    rollout: async ({ model, signal }) => {
      const message = { role: 'user' as const, content: 'a' };
      const call = { model: model.languageModel, messages: [message, message], abortSignal: signal };
      return (await generateText(call)).text;
    },
    atLimit: () => 'too long',
    rewards,
  });
  const rollout = await runOnce(environment, noScenario, small);
  expect(rollout).toMatchObject({
    status: 'failed',
    failure: { code: 'nothing_recorded', message: expect.stringContaining('first prompt is longer') },
  });
});

test('a request that the endpoint rejects is the agent’s error, not the policy’s', async () => {
  const onError = vi.fn(() => 'too long');
  const environment = defineEnvironment({
    ...base,
    rollout: async ({ model }): Promise<string> => {
      const { baseUrl, apiKey } = await model.endpoint();
      await generateText({ model: model.languageModel, prompt: 'a' });
      const response = await fetch(`${baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}` },
        body: '{',
      });
      throw new Error(`status ${response.status}`);
    },
    onError,
    rewards,
  });
  expect(await runOnce(environment, noScenario, small)).toMatchObject({
    status: 'failed',
    failure: { message: 'status 400' },
  });
  expect(onError).not.toHaveBeenCalled();
});

const pieces = {
  ...base,
  prompt: () => 'a',
  observe: () => 'and then?',
};
const turns = { turns: ({ outcome }: { outcome: { turns: number } }) => outcome.turns };

test('in a conversation of pieces, `onError` gets the conversation so far', async () => {
  const failed = await runOnce(defineEnvironment({ ...pieces, rewards: turns }), noScenario, small);
  expect(failed).toMatchObject({ status: 'failed', failure: { code: 'context_length_exceeded' } });
  const environment = defineEnvironment({ ...pieces, onError: ({ outcome }) => outcome, rewards: turns });
  const rollout = await runOnce(environment, noScenario, small);
  expect(rollout).toMatchObject({
    status: 'completed',
    reward: 1,
    outcome: { text: 'yes', turns: 1, stopReason: 'context_limit' },
  });
  expect(rollout.trajectory.stopReason).toBe('context_limit');
});

test('it handles what a piece or a tool throws, but not what a piece returns incorrectly', async () => {
  const run = (own: object, policy: FakePolicy) =>
    runOnce(
      defineEnvironment({ ...pieces, ...own, onError: ({ outcome }) => outcome, rewards: turns }),
      noScenario,
      policy,
    );
  const yes: FakePolicy = () => ({ text: 'yes' });
  const observe = () => {
    throw new RangeError('no such move');
  };
  expect(await run({ observe }, yes)).toMatchObject({
    status: 'completed',
    outcome: { stopReason: 'error:RangeError', turns: 1 },
  });
  const look = tool({
    inputSchema: z.object({}),
    execute: (): string => {
      throw new Error('dark');
    },
  });
  const call: FakePolicy = () => ({ toolCalls: [{ name: 'look', arguments: '{}' }] });
  expect(await run({ tools: { look }, onToolError: 'fail' }, call)).toMatchObject({
    status: 'completed',
    outcome: { stopReason: 'error:tool_failed' },
  });
  expect(await run({ observe: () => 3 }, yes)).toMatchObject({
    status: 'failed',
    failure: { code: 'invalid_piece' },
  });
});

describe('with an external model', () => {
  const tooLong = new APICallError({
    message: 'too long',
    url: 'https://provider.test',
    requestBodyValues: {},
    statusCode: 400,
    responseBody: '{"error":{"message":"x","code":"context_length_exceeded"}}',
  });
  const small = () =>
    new MockLanguageModelV4({
      doGenerate: async ({ prompt }) => {
        if (prompt.length > 1) throw tooLong;
        return saying('yes');
      },
    });
  const rolloutOf = (rollout: (context: RolloutContext<object>) => Promise<string>) =>
    runRollout(
      rolloutOptions(
        defineEnvironment({ ...base, rollout, atLimit: () => 'too long', onError: () => 'error', rewards }),
        noScenario,
        externalModel(small()),
      ),
    );

  test('a prompt that its provider rejects as too long is the same limit', async () => {
    const rollout = await rolloutOf(grow);
    expect(rollout).toMatchObject({ status: 'completed', reward: -1, outcome: 'too long' });
    expect(rollout.trajectory.stopReason).toBe('context_limit');
  });

  test('a prompt that another model’s provider rejects is a failure', async () => {
    const rollout = await rolloutOf(async ({ model }) => {
      const { text } = await generateText({ model: model.languageModel, prompt: 'a' });
      const turn = { role: 'user' as const, content: text };
      return (await generateText({ model: small(), messages: [turn, turn] })).text;
    });
    expect(rollout).toMatchObject({ status: 'failed', failure: { code: 'AI_APICallError' } });
  });
});
