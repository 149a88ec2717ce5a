import type { LanguageModelV4CallOptions } from '@ai-sdk/provider';
import { expect, test } from 'vitest';
import { toChatRequest } from '../../src/model/chat-request.ts';
import { toPromptMessages } from '../../src/model/prompt-messages.ts';

const prompt: LanguageModelV4CallOptions['prompt'] = [];
const weather = { type: 'function', name: 'weather', inputSchema: { type: 'object' } } as const;

test('settings become fields of the request', () => {
  const { settings, warnings } = toChatRequest({
    prompt,
    temperature: 0.5,
    topP: 0.9,
    topK: 4,
    stopSequences: ['END'],
    maxOutputTokens: 7,
    responseFormat: { type: 'json', schema: { type: 'object' }, name: 'answer' },
    tools: [weather],
    toolChoice: { type: 'tool', toolName: 'weather' },
    providerOptions: { martingale: { repetition_penalty: 1.1 } },
  });
  expect(settings).toMatchObject({
    temperature: 0.5,
    top_p: 0.9,
    top_k: 4,
    stop: ['END'],
    max_completion_tokens: 7,
    repetition_penalty: 1.1,
    response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: { type: 'object' } } },
    tools: [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }],
    tool_choice: { type: 'function', function: { name: 'weather' } },
  });
  expect(warnings).toEqual([]);
});

test('turns reasoning off where the agent asks for that, and else leaves it to the model', () => {
  const effort = (reasoning: LanguageModelV4CallOptions['reasoning']) =>
    toChatRequest({ prompt, reasoning }).settings.reasoning_effort;
  expect(effort('none')).toBe('none');
  expect(effort('low')).toBe('low');
  expect(effort('provider-default')).toBeUndefined();
  expect(effort(undefined)).toBeUndefined();
});

test.each<[string, Partial<LanguageModelV4CallOptions>]>([
  ['browser.open', { tools: [{ type: 'provider', id: 'browser.open', name: 'open', args: {} }] }],
  ['xhigh', { reasoning: 'xhigh' }],
  ['return_token_ids', { providerOptions: { martingale: { return_token_ids: false } } }],
  ['tool_choice', { providerOptions: { martingale: { tool_choice: 'required' } } }],
  [
    'together with the toolChoice "required"',
    {
      ...{ tools: [weather], toolChoice: { type: 'required' } },
      providerOptions: { martingale: { tool_choice: { type: 'allowed_tools' } } },
    },
  ],
  ['temperature', { providerOptions: { martingale: { temperature: 0.5 } } }],
  ['tools', { providerOptions: { martingale: { tools: [] } } }],
])('refuses %s by name', (name, options) => {
  expect(() => toChatRequest({ prompt, ...options })).toThrow(name);
});

test('refuses files by name', () => {
  const file = { type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'AA==' } } as const;
  expect(() => toPromptMessages([{ role: 'user', content: [file] }])).toThrow('image/png');
});

test('each tool result becomes one message', () => {
  const result = (
    toolCallId: string,
    output: { type: 'json'; value: { paid: boolean } } | { type: 'error-text'; value: string },
  ) => ({ type: 'tool-result', toolName: 'order', toolCallId, output }) as const;
  const { messages } = toPromptMessages([
    {
      role: 'tool',
      content: [
        result('1', { type: 'json', value: { paid: true } }),
        result('2', { type: 'error-text', value: 'not found' }),
      ],
    },
  ]);
  expect(messages).toEqual([
    { role: 'tool', tool_call_id: '1', content: '{"paid":true}' },
    { role: 'tool', tool_call_id: '2', content: 'not found' },
  ]);
});
