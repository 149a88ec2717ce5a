import { writeFile } from 'node:fs/promises';
import { createClient, openModel, type SftExample, sft } from 'martingale';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import type { Engine } from '../../../src/engines/engine.ts';
import { type RunningService, startService } from '../../../src/service/index.ts';
import { generateCheckpoint } from '../../engines/embedded/checkpoint/generated.ts';
import { sharedFolder } from '../../support/files.ts';

const parent = sharedFolder();
let engine: Engine;
let service: RunningService;

beforeAll(async () => {
  const folder = await generateCheckpoint(parent, 'qwen2');
  await writeFile(
    `${folder}/chat_template.jinja`,
    '{% for message in messages if message.role != "note" %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}',
  );
  const foreign = await generateCheckpoint(parent, 'qwen3');
  await writeFile(
    `${foreign}/chat_template.jinja`,
    '{{ tools }}{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}{% for call in message.tool_calls or [] %}<tool_call>\n<function={{ call.function.name }}>{{ call.function.arguments }}{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}',
  );
  const checkpoints = [
    { folder, id: 'toolless' },
    { folder: foreign, id: 'foreign' },
  ];
  engine = await createEmbeddedEngine({ threads: 1, checkpoints });
  service = await startService({ engine, dataFolder: `${parent}/data` });
});
afterAll(async () => {
  await service?.close();
  await engine?.close();
});

async function chat(fields: object) {
  const response = await fetch(`${service.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${service.apiKey}` },
    body: JSON.stringify({
      model: 'toolless',
      messages: [{ role: 'user', content: 'hello' }],
      tools: [{ type: 'function', function: { name: 'press', parameters: { type: 'object' } } }],
      max_completion_tokens: 2,
      ...fields,
    }),
  });
  return { status: response.status, text: await response.text() };
}

it('tools for a checkpoint whose template does not show them are refused by name', async () => {
  const { status, text } = await chat({});
  expect(status).toBe(422);
  expect(text).toContain('whose chat template shows no tools to the model');
  expect(text).toContain('"tools"');
  expect(text).toContain('--chat-template hermes');
});

it('tools for a checkpoint whose calls are not read are refused, with what its template writes', async () => {
  const { status, text } = await chat({ model: 'foreign' });
  expect(status).toBe(422);
  expect(text).toContain('writes calls in a way that is not read here, as in');
  expect(text).toContain('<function=probe>');
  expect((await chat({ model: 'foreign', tools: undefined })).status).toBe(200);
});

it('required tools are refused with a template of the request too, because no form of calls is known', async () => {
  const shown = '{{ tools | length }}{% for message in messages %}{{ message.content }}{% endfor %}';
  const { status, text } = await chat({ tool_choice: 'required', chat_template: shown });
  expect(status).toBe(422);
  expect(text).toContain('cannot call tools, because its chat template shows none; serve it with one');
});

it.each([
  ['that may not be called', { tool_choice: 'none' }],
  [
    'with a template of the request that shows them',
    { chat_template: '{{ tools | length }}{% for message in messages %}{{ message.content }}{% endfor %}' },
  ],
  ['of which there are none', { tools: [] }],
])('tools %s are no reason to refuse', async (_, fields) => {
  expect(await chat(fields)).toMatchObject({ status: 200 });
});

const call = { id: 'c', type: 'function' as const, function: { name: 'press', arguments: '{}' } };
const called = [
  { role: 'user', content: 'press' },
  { role: 'assistant', content: null, tool_calls: [call] },
  { role: 'tool', tool_call_id: 'c', content: 'pressed' },
];

it('calls in the history that the template leaves out are refused by their message', async () => {
  const { status, text } = await chat({ messages: called, tools: [] });
  expect(status).toBe(422);
  expect(JSON.parse(text).error).toMatchObject({
    code: 'not_in_chat_template',
    message: expect.stringContaining('leaves out tool calls, so the model would not see those of message 1'),
  });
});

it('training data of which the template leaves something out is refused by its line', async () => {
  const { url: baseUrl, apiKey } = service;
  const client = createClient({ baseUrl, apiKey });
  const model = await openModel({ client, project: 'tests', name: 'toolless', baseModel: 'toolless' });
  const train = (example: object) =>
    sft({ model, examples: [example as SftExample], assistantTurns: 'last', progress: false });
  const tools = [{ type: 'function', function: { name: 'press', parameters: { type: 'object' } } }];
  const done = { role: 'assistant', content: 'done' };
  await expect(train({ messages: [...called.slice(0, 1), done], tools })).rejects.toThrow(
    /line 1: .*tools: cannot be given to toolless, whose chat template shows no tools/,
  );
  await expect(train({ messages: [{ role: 'note', content: 'Be brief.' }, done] })).rejects.toThrow(
    /line 1: The model's chat template leaves out messages of the role note, .* of message 0/,
  );
});
