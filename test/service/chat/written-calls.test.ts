import { join } from 'node:path';
import OpenAI from 'openai';
import { expect, onTestFinished, test } from 'vitest';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import { startService } from '../../../src/service/index.ts';
import { generateCheckpoint } from '../../engines/embedded/checkpoint/generated.ts';
import { temporaryFolder } from '../../support/files.ts';

const templates = join(import.meta.dirname, '../../language/fixtures/templates');

const properties = {
  count: { type: 'integer' },
  note: { type: 'string', maxLength: 12 },
  isOpen: { type: 'boolean' },
};
const parameters = { type: 'object', properties, required: Object.keys(properties) };
const tools: OpenAI.ChatCompletionTool[] = [{ type: 'function', function: { name: 'add', parameters } }];
const question: OpenAI.ChatCompletionMessageParam = { role: 'user', content: 'hello' };

/** Forms in which the arguments are JSON, with ids that the model writes, and in which they are not. */
test.each([
  ['mistral', undefined],
  ['qwen3', join(templates, 'qwen3-coder.jinja')],
] as const)(
  'calls in the form of %s are sampled, streamed and answered over HTTP',
  async (family, chatTemplate) => {
    const folder = await generateCheckpoint(await temporaryFolder(), family);
    const engine = await createEmbeddedEngine({
      checkpoints: [{ folder, ...(chatTemplate ? { chatTemplate } : {}) }],
      threads: 1,
    });
    onTestFinished(() => engine.close());
    const service = await startService({ engine, dataFolder: await temporaryFolder(), log: () => undefined });
    onTestFinished(() => service.close());
    const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: service.apiKey });
    const asked = { model: `${family}-generated`, tools, max_completion_tokens: 200, seed: 3 };
    const stream = client.chat.completions.stream({
      ...asked,
      messages: [question],
      tool_choice: 'required',
      parallel_tool_calls: false,
    });
    const { message, finish_reason } = (await stream.finalChatCompletion()).choices[0]!;
    expect(finish_reason).toBe('tool_calls');
    const [call] = message.tool_calls ?? [];
    if (call?.type !== 'function') throw new Error(`there is no call in ${JSON.stringify(message)}`);
    expect(call.function.name).toBe('add');
    expect(JSON.parse(call.function.arguments)).toEqual({
      count: expect.any(Number),
      note: expect.any(String),
      isOpen: expect.any(Boolean),
    });
    const result = { role: 'tool', tool_call_id: call.id, content: '3' } as const;
    const answer = await client.chat.completions.create({ ...asked, messages: [question, message, result] });
    expect(answer.usage?.prompt_tokens).toBeGreaterThan(20);
  },
);
