import { generateText, Output, stepCountIs, streamText, ToolLoopAgent, tool } from 'ai';
import { ModelHandle, policy, Trajectory } from 'martingale';
import { runInTrajectory } from 'martingale/loop';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { ChatCompletionRequest, Message } from '../../src/contract/index.ts';
import { runWithModel } from '../../src/model/index.ts';
import { type FakePolicy, render, startFakeService } from './fake-service.ts';

const name = 'local/shop/desk:step3';
const order = tool({
  description: 'Look up an order',
  inputSchema: z.object({ order: z.number(), note: z.string().default('none') }),
  execute: ({ order: number }) => `order ${number} is paid`,
});

/** Calls a tool with unusually formatted arguments, then answers with JSON. */
const twoTurns: FakePolicy = ({ messages }) =>
  messages.at(-1)?.role === 'tool'
    ? { text: '{ "verdict" :  "done" }' }
    : { toolCalls: [{ name: 'order', arguments: '{ "order" :  12.0 }' }] };

async function open(answers: FakePolicy) {
  const service = await startFakeService({ policy: answers });
  const model = new ModelHandle({ client: service.client, name });
  return { service, model, trajectory: new Trajectory({ policy: name, seed: 5 }) };
}

/** The main history equals, token for token, the last prompt and reply at the service. */
function expectExact(trajectory: Trajectory, requests: readonly ChatCompletionRequest[]) {
  const [main] = trajectory.histories;
  const messages = (main?.entries ?? []).map(
    (entry): Message => ('message' in entry ? { role: 'assistant', token_ids: entry.token_ids } : entry),
  );
  const last = render(requests.at(-1)?.messages ?? []);
  expect(render(messages).slice(0, -1)).toEqual([...last, ...(main?.choices.at(-1)?.token_ids ?? [])]);
  expect(main?.choices).toHaveLength(requests.length);
}

const agentOf = (model: ModelHandle) =>
  new ToolLoopAgent({
    model: model.languageModel,
    tools: { order },
    output: Output.object({ schema: z.object({ verdict: z.string() }) }),
    stopWhen: stepCountIs(4),
  });

test('a ToolLoopAgent with tools and structured output runs unmodified and is recorded exactly', async () => {
  const { service, model, trajectory } = await open(twoTurns);
  await using _ = service;
  const result = await runInTrajectory(trajectory, () => agentOf(model).generate({ prompt: 'order 12?' }));
  expect(result.output).toEqual({ verdict: 'done' });
  expect(trajectory.histories).toHaveLength(1);
  expectExact(trajectory, service.requests);

  const [first, second] = trajectory.choices;
  expect(first?.message.tool_calls?.[0]?.function.arguments).toBe('{ "order" :  12.0 }');
  const sent = service.requests[1]?.messages[1];
  expect(sent).toMatchObject({ role: 'assistant', token_ids: first?.token_ids });
  expect(second?.message.content).toBe('{ "verdict" :  "done" }');
  expect(service.requests[0]).toMatchObject({
    model: name,
    logprobs: true,
    return_token_ids: true,
    response_format: { type: 'json_schema' },
    tools: [{ type: 'function', function: { name: 'order' } }],
  });
  expect(trajectory.toRecord()).toMatchObject({ initial_policy_version: 3, final_policy_version: 3 });
});

test('a streamed agent is recorded as the generated one is', async () => {
  const generated = await open(twoTurns);
  await using _ = generated.service;
  await runInTrajectory(generated.trajectory, () =>
    agentOf(generated.model).generate({ prompt: 'order 12?' }),
  );
  const streamed = await open(twoTurns);
  await using __ = streamed.service;
  const output = await runInTrajectory(streamed.trajectory, async () => {
    const result = await agentOf(streamed.model).stream({ prompt: 'order 12?' });
    return result.output;
  });
  expect(output).toEqual({ verdict: 'done' });
  expect(streamed.trajectory.histories).toHaveLength(1);
  expectExact(streamed.trajectory, streamed.service.requests);
  expect(streamed.trajectory.toRecord().messages_and_choices).toEqual(
    generated.trajectory.toRecord().messages_and_choices,
  );
});

test('malformed tool arguments are kept as they were sampled', async () => {
  const { service, model, trajectory } = await open(({ messages }) =>
    messages.at(-1)?.role === 'tool'
      ? { text: 'sorry' }
      : { toolCalls: [{ name: 'order', arguments: '{"order": 1' }] },
  );
  await using _ = service;
  const agent = new ToolLoopAgent({ model: model.languageModel, tools: { order } });
  await runInTrajectory(trajectory, () => agent.generate({ prompt: 'x' }));
  expect(trajectory.histories).toHaveLength(1);
  expectExact(trajectory, service.requests);
  const [first] = trajectory.choices;
  expect(service.requests[1]?.messages[1]).toMatchObject({
    token_ids: first?.token_ids,
    tool_calls: [{ function: { arguments: '{"order": 1' } }],
  });
});

test('an empty reply keeps its position in the history', async () => {
  const { service, model, trajectory } = await open(({ messages }) => ({
    text: messages.length > 1 ? 'b' : '',
  }));
  await using _ = service;
  await runInTrajectory(trajectory, async () => {
    const { languageModel } = model;
    const first = await generateText({ model: languageModel, messages: [{ role: 'user', content: 'a' }] });
    await generateText({
      model: languageModel,
      messages: [
        { role: 'user', content: 'a' },
        ...first.response.messages,
        { role: 'user', content: 'go on' },
      ],
    });
  });
  expect(trajectory.histories).toHaveLength(1);
});

test('an edited earlier message begins a new history, and edited sampled text is sent as text', async () => {
  const { service, model, trajectory } = await open(() => ({ text: 'reply' }));
  await using _ = service;
  await runInTrajectory(trajectory, async () => {
    const { languageModel } = model;
    const first = await generateText({ model: languageModel, messages: [{ role: 'user', content: 'a' }] });
    const [reply] = first.response.messages;
    if (reply?.role !== 'assistant' || typeof reply.content === 'string') throw new TypeError('no reply');
    await generateText({
      model: languageModel,
      messages: [{ role: 'user', content: 'EDITED' }, reply, { role: 'user', content: 'b' }],
    });
    const shortened = { ...reply, content: reply.content.map((part) => ({ ...part, text: 'rep' })) };
    await generateText({
      model: languageModel,
      messages: [{ role: 'user', content: 'a' }, shortened as typeof reply, { role: 'user', content: 'c' }],
    });
  });
  expect(trajectory.histories).toHaveLength(3);
  expect(service.requests[1]?.messages[1]).toEqual({ role: 'assistant', content: 'reply' });
  expect(service.requests[2]?.messages[1]).toEqual({ role: 'assistant', content: 'rep' });
});

test('parallel calls of one rollout become separate histories, each with its own seed', async () => {
  const { service, model, trajectory } = await open(({ messages }) => ({ text: `to ${messages.length}` }));
  await using _ = service;
  await runInTrajectory(trajectory, () =>
    Promise.all(
      ['a', 'b', 'c'].map((prompt) => generateText({ model: model.languageModel, prompt, temperature: 0.5 })),
    ),
  );
  expect(trajectory.histories.map(({ entries }) => entries[0])).toEqual(
    ['a', 'b', 'c'].map((content) => ({ role: 'user', content })),
  );
  expect(new Set(service.requests.map(({ seed }) => seed)).size).toBe(3);
});

test('the same rollout seed gives the same call seeds; a call’s own seed is kept', async () => {
  const { service, model } = await open(() => ({ text: 'x' }));
  await using _ = service;
  for (let repeat = 0; repeat < 2; repeat++) {
    await runInTrajectory(new Trajectory({ seed: 5 }), async () => {
      await generateText({ model: model.languageModel, prompt: 'a' });
      await generateText({ model: model.languageModel, prompt: 'b' });
    });
  }
  await runInTrajectory(new Trajectory({ seed: 5 }), () =>
    generateText({ model: model.languageModel, prompt: 'a', seed: 42 }),
  );
  const [first, second, ...again] = service.requests.map(({ seed }) => seed);
  expect(again).toEqual([first, second, 42]);
  expect(first).not.toBe(second);
});

test('outside a rollout the model answers, records nothing and sends no seed', async () => {
  const { service, model } = await open(() => ({ text: 'hello' }));
  await using _ = service;
  expect((await generateText({ model: model.languageModel, prompt: 'a' })).text).toBe('hello');
  expect(service.requests[0]?.seed).toBeUndefined();
});

test('policy() returns the model of the current rollout, and throws elsewhere', async () => {
  const { service, model, trajectory } = await open(() => ({ text: 'hello' }));
  await using _ = service;
  const call = () => generateText({ model: policy(), prompt: 'a' });
  await expect(call()).rejects.toThrow(/outside of a rollout/);
  const { text } = await runInTrajectory(trajectory, () => runWithModel(model, call));
  expect(text).toBe('hello');
  expect(trajectory.choices).toHaveLength(1);
});

test('a handle for judges is not recorded', async () => {
  const { service, model, trajectory } = await open(() => ({ text: '7', model: 'local/shop/desk:step9' }));
  await using _ = service;
  const judge = model.at(9).with({ record: false });
  await runInTrajectory(trajectory, () => generateText({ model: judge.languageModel, prompt: 'score this' }));
  expect(trajectory.histories).toHaveLength(0);
});

test('an answer of another step or without ids rejects the call', async () => {
  for (const reply of [{ model: 'local/shop/desk:step4' }, { withoutTokenIds: true }]) {
    const { service, model, trajectory } = await open(() => ({ text: 'x', ...reply }));
    await using _ = service;
    const call = () => generateText({ model: model.languageModel, prompt: 'a' });
    await expect(runInTrajectory(trajectory, call)).rejects.toThrow(/pinned to|token ids/);
    const streamed = () => {
      const { text } = streamText({ model: model.languageModel, prompt: 'a', onError: () => undefined });
      return text;
    };
    await expect(runInTrajectory(trajectory, streamed)).rejects.toThrow();
    expect(trajectory.violation).toBeDefined();
  }
});

test('a handle overrides the settings of the agent', async () => {
  const { service, model } = await open(() => ({ text: 'x' }));
  await using _ = service;
  const greedy = model.with({ temperature: 0, topK: 4, minP: 0.1, maxOutputTokens: 5 });
  await generateText({ model: greedy.languageModel, prompt: 'a', temperature: 0.9, topP: 0.5 });
  expect(service.requests[0]).toMatchObject({
    temperature: 0,
    top_p: 0.5,
    top_k: 4,
    min_p: 0.1,
    max_completion_tokens: 5,
  });
});

test('ids can be omitted for services that refuse them; the sampled text is still sent', async () => {
  const { service, model, trajectory } = await open(twoTurns);
  await using _ = service;
  const agent = agentOf(model.with({ sendTokenIds: false }));
  await runInTrajectory(trajectory, () => agent.generate({ prompt: 'order 12?' }));
  const sent = service.requests[1]?.messages[1];
  expect(sent).not.toHaveProperty('token_ids');
  expect(sent).toMatchObject({ tool_calls: [{ function: { arguments: '{ "order" :  12.0 }' } }] });
});
