import { afterAll, beforeAll, expect, it } from 'vitest';
import { createClient, type WholeChatRequest } from '../../../src/client/index.ts';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import type { Engine } from '../../../src/engines/engine.ts';
import { type RunningService, startService } from '../../../src/service/index.ts';
import { generateCheckpoint } from '../../engines/embedded/checkpoint/generated.ts';
import { sharedFolder } from '../../support/files.ts';

const parent = sharedFolder();
let engine: Engine;
let service: RunningService;

beforeAll(async () => {
  const folder = await generateCheckpoint(parent, 'lfm2', { contextLength: 1024, logitScale: 2 });
  engine = await createEmbeddedEngine({ threads: 1, checkpoints: [{ folder, id: 'lfm2' }] });
  service = await startService({ engine, dataFolder: `${parent}/data` });
});
afterAll(async () => {
  await service?.close();
  await engine?.close();
});

const parameters = {
  type: 'object',
  properties: {
    city: { type: 'string', maxLength: 5 },
    days: { type: 'integer', minimum: 1, maximum: 9 },
    options: { type: 'object', properties: { deep: { type: ['boolean', 'null'] } }, required: ['deep'] },
  },
  required: ['city', 'options'],
};
const user = { role: 'user', content: 'hello' } as const;
const request: WholeChatRequest = {
  model: 'lfm2',
  messages: [user],
  tools: [{ type: 'function', function: { name: 'weather', parameters } }],
  tool_choice: { type: 'function', function: { name: 'weather' } },
  max_completion_tokens: 200,
  seed: 4,
};

it('calls of LFM2 are constrained, streamed as they are answered, and continued from the sampled tokens', async () => {
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  const answer = await client.chat.completions.create({ ...request, return_token_ids: true });
  const [choice] = answer.choices;
  const [made] = choice?.message.tool_calls ?? [];
  expect(choice?.finish_reason).toBe('tool_calls');
  expect(choice?.message.content).toBeNull();
  expect(made?.function.name).toBe('weather');
  const written = JSON.parse(made?.function.arguments ?? '');
  expect(written).toMatchObject({ city: expect.any(String), options: { deep: written.options.deep } });
  expect([true, false, null]).toContain(written.options.deep);

  const pieces: string[] = [];
  for await (const chunk of await client.chat.completions.create({ ...request, stream: true }))
    for (const delta of chunk.choices[0]?.delta.tool_calls ?? [])
      pieces.push(delta.function?.arguments ?? '');
  expect(pieces.join('')).toBe(made?.function.arguments);

  const next = await client.chat.completions.create({
    ...request,
    messages: [
      user,
      { role: 'assistant', content: null, token_ids: choice?.token_ids ?? [] },
      { role: 'tool', tool_call_id: made?.id ?? '', content: '20' },
    ],
    tool_choice: 'none',
    max_completion_tokens: 1,
    return_token_ids: true,
  });
  const [before, after] = [answer.prompt_token_ids ?? [], next.prompt_token_ids ?? []];
  const begun = [...before, ...(choice?.token_ids ?? [])];
  expect(after.slice(0, begun.length)).toEqual(begun);
  // Whole blocks of what was computed for the reply.
  expect(next.usage?.prompt_tokens_details?.cached_tokens ?? 0).toBeGreaterThan(before.length);
});
