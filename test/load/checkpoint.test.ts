import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startService } from '../../src/service/index.ts';
import { callsTo, type Json } from '../service/harness.ts';
import { checkpointModel } from '../support/base-models.ts';
import { sharedFolder } from '../support/files.ts';

const folder = sharedFolder();
const { baseModel } = checkpointModel;

const tool = {
  type: 'function',
  function: {
    name: 'look',
    parameters: {
      type: 'object',
      properties: { at: { enum: ['it', 'him'] } },
      required: ['at'],
      additionalProperties: false,
    },
  },
};
const schema = {
  type: 'object',
  properties: { to: { enum: ['a', 'b'] } },
  required: ['to'],
  additionalProperties: false,
};
const contentOf = ({ message }: Json): string => message.content;

/** What is asked for, and what each of its replies must be. */
const kinds: [object, (choice: Json) => void][] = [
  [{ max_tokens: 30 }, (choice) => expect(choice.message.role).toBe('assistant')],
  [
    { structured_outputs: { regex: '[a-z]{5}-[0-9]{3}' } },
    (choice) => expect(contentOf(choice)).toMatch(/^[a-z]{5}-[0-9]{3}$/),
  ],
  [
    { structured_outputs: { choice: ['yes', 'no', 'perhaps'] } },
    (choice) => expect(['yes', 'no', 'perhaps']).toContain(contentOf(choice)),
  ],
  [
    { response_format: { type: 'json_schema', json_schema: { name: 'to', schema, strict: true } } },
    (choice) => expect(JSON.parse(contentOf(choice))).toEqual({ to: expect.stringMatching(/^[ab]$/) }),
  ],
  [
    { tools: [tool], tool_choice: 'required', parallel_tool_calls: false },
    ({ message }) => {
      const [{ function: called }] = message.tool_calls;
      expect([called.name, JSON.parse(called.arguments)]).toEqual([
        'look',
        { at: expect.stringMatching(/^(it|him)$/) },
      ]);
    },
  ],
  [{ temperature: 0, repetition_penalty: 1.2, max_tokens: 12 }, () => undefined],
];

test('many chats at once on a checkpoint, with mixed constraints and hardly any cache, all complete', async () => {
  const engine = await checkpointModel.open({ prefixCacheBytes: 64 * 1024, largestBatch: 16 });
  const service = await startService({ engine, dataFolder: join(folder, 'data'), apiKey: 'test-key' });
  try {
    const { call } = callsTo(service.url);
    const asked = Array.from({ length: 96 }, async (_, index) => {
      const [fields, check] = kinds[index % kinds.length] ?? [{}, () => undefined];
      const messages = [{ role: 'user', content: `question ${index % 9} ${'and more '.repeat(index % 5)}` }];
      const { status, body } = await call('POST', '/v1/chat/completions', {
        ...{ model: baseModel, messages, seed: index, n: 1 + (index % 2), max_tokens: 200, ...fields },
      });
      expect(status, JSON.stringify(body)).toBe(200);
      expect(body.choices).toHaveLength(1 + (index % 2));
      for (const choice of body.choices) check(choice);
    });
    await Promise.all(asked);
    const { body } = await call('GET', '/v1/system-check');
    expect(body.inference_queue).toMatchObject({ success: true, in_hand: 0 });
  } finally {
    await service.close();
    await engine.close();
  }
});
