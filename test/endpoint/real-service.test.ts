import Anthropic from '@anthropic-ai/sdk';
import { closeEndpoints, ModelHandle, Trajectory } from 'martingale';
import { runInTrajectory } from 'martingale/loop';
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { baseModel, type RealService, startRealService } from '../model/real-service.ts';

let service: RealService;
beforeAll(async () => {
  service = await startRealService();
});
afterAll(async () => {
  await closeEndpoints();
  await service?.close();
});

const parameters = {
  type: 'object',
  properties: { state: { type: 'string', enum: ['on', 'off'] }, note: { type: 'string', maxLength: 12 } },
  required: ['state', 'note'],
  additionalProperties: false,
};

async function open() {
  const trajectory = new Trajectory({ seed: 3 });
  const model = new ModelHandle({ client: service.client, name: baseModel });
  const { baseUrl, apiKey } = await runInTrajectory(trajectory, () => model.endpoint());
  const anthropic = new Anthropic({ baseURL: baseUrl, apiKey, authToken: null });
  return { trajectory, client: new OpenAI({ baseURL: baseUrl, apiKey }), anthropic };
}

test.each([false, true])(
  'the embedded engine samples each prompt after its own tokens: chat (streamed: %s)',
  async (stream) => {
    const { trajectory, client } = await open();
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'make it light' }];
    for (let turn = 0; turn < 3; turn++) {
      const request = {
        ...{ model: 'any', messages, max_completion_tokens: 90, reasoning_effort: 'low' as const },
        tools: [{ type: 'function' as const, function: { name: 'lamp', parameters } }],
        tool_choice: 'required' as const,
        parallel_tool_calls: false,
      };
      const { choices } = stream
        ? await client.chat.completions.stream(request).finalChatCompletion()
        : await client.chat.completions.create(request);
      const { content = null, tool_calls = [] } = choices[0]?.message ?? {};
      const calls = tool_calls.flatMap((call) => (call.type === 'function' ? [call] : []));
      // As a library without reasoning sends it back.
      messages.push({ role: 'assistant', content, tool_calls: calls });
      for (const { id } of calls) messages.push({ role: 'tool', tool_call_id: id, content: 'done' });
    }
    expectOneSequence(trajectory, 3);
  },
);

test.each([false, true])(
  'the embedded engine samples each prompt after its own tokens: responses (streamed: %s)',
  async (stream) => {
    const { trajectory, client } = await open();
    let previous: string | undefined;
    for (const content of ['what is it', 'and then', 'so']) {
      const request = {
        ...{ model: 'any', instructions: 'be brief', input: [{ role: 'user' as const, content }] },
        ...{ max_output_tokens: 60, reasoning: { effort: 'low' as const }, previous_response_id: previous },
      };
      const response = stream
        ? await client.responses.stream(request).finalResponse()
        : await client.responses.create(request);
      previous = response.id;
    }
    expectOneSequence(trajectory, 3);
  },
);

test.each([false, true])(
  'the embedded engine samples each prompt after its own tokens: messages (streamed: %s)',
  async (stream) => {
    const { trajectory, anthropic } = await open();
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'make it light' }];
    for (let turn = 0; turn < 3; turn++) {
      const shared = {
        ...{ model: 'any', messages, thinking: { type: 'enabled' as const, budget_tokens: 1024 } },
        tools: [{ name: 'lamp', input_schema: { ...parameters, type: 'object' as const } }],
        tool_choice: { type: 'any' as const, disable_parallel_tool_use: true },
      };
      const body = { ...shared, max_tokens: 90 };
      const { input_tokens } = await anthropic.messages.countTokens(shared);
      const { content, usage } = stream
        ? await anthropic.messages.stream(body).finalMessage()
        : await anthropic.messages.create(body);
      expect(usage.input_tokens + (usage.cache_read_input_tokens ?? 0)).toBe(input_tokens);
      messages.push({ role: 'assistant', content });
      const results = content.flatMap((block) =>
        block.type === 'tool_use'
          ? [{ type: 'tool_result' as const, tool_use_id: block.id, content: 'done' }]
          : [],
      );
      messages.push({ role: 'user', content: results });
    }
    expectOneSequence(trajectory, 3);
  },
);

/** One history, whose every turn began with a thought: its prompt was the one before and what was sampled after it. */
function expectOneSequence(trajectory: Trajectory, turns: number) {
  expect(trajectory.histories).toHaveLength(1);
  expect(trajectory.choices).toHaveLength(turns);
  for (const { message, token_ids } of trajectory.choices) {
    expect(message.reasoning).toMatch(/./);
    expect(token_ids?.length).toBeGreaterThan(0);
  }
}
