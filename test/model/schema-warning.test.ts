import { generateText, jsonSchema, Output, tool } from 'ai';
import { ModelHandle } from 'martingale';
import { afterEach, expect, test, vi } from 'vitest';
import { startFakeService } from './fake-service.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

const count = { type: 'integer', minimum: 0, format: 'uint' } as const;
const color = { type: 'string', format: 'color', markdownDescription: '*a*' } as const;

async function ask(properties: object, output?: Parameters<typeof generateText>[0]['output']) {
  await using service = await startFakeService({ policy: () => ({ text: '{}' }) });
  const model = new ModelHandle({ client: service.client, name: 'local/shop/desk:step3' });
  const paint = tool({ inputSchema: jsonSchema({ type: 'object', properties: { ...properties } }) });
  for (let turn = 0; turn < 2; turn++)
    await generateText({ model: model.languageModel, prompt: 'a', tools: { paint }, output, maxRetries: 0 });
}

test('keywords that JSON Schema does not define are told once for each tool', async () => {
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  await ask({ color });
  await ask({ color });
  expect(warned).toHaveBeenCalledOnce();
  expect(warned).toHaveBeenCalledWith(
    expect.stringMatching(/^The tool "paint" has .*"format": "color", "markdownDescription".* not enforced/),
    { type: 'MartingaleWarning', code: 'martingale_schema_unenforced' },
  );
});

test('those of a response format too, and none for what is enforced', async () => {
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
  await ask({ count });
  expect(warned).not.toHaveBeenCalled();
  await ask({ count }, Output.object({ schema: jsonSchema({ type: 'object', tooltip: 'b' } as object) }));
  expect(warned).toHaveBeenCalledExactlyOnceWith(
    expect.stringContaining('The response format "response" has a schema with "tooltip"'),
    expect.anything(),
  );
});
