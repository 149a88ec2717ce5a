import { request } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDesk } from './support.ts';

/** As they were before there was a server. */
const globals = [globalThis.Request, globalThis.Response];

let desk: Awaited<ReturnType<typeof openDesk>>;
let address: { baseUrl: string; apiKey: string };
beforeAll(async () => {
  desk = await openDesk(() => ({ text: 'x' }));
  address = await desk.model.endpoint();
});
afterAll(() => desk[Symbol.asyncDispose]());

async function post(path: string, body: object | string) {
  const response = await fetch(`${address.baseUrl}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${address.apiKey}`, 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as object };
}

const messages = [{ role: 'user', content: 'a' }];

test.each<[string, object]>([
  ['n', { n: 2 }],
  ['use_beam_search', { use_beam_search: true }],
  ['length_penalty', { length_penalty: 2 }],
  ['store', { store: true }],
  ['functions', { functions: [] }],
  ['function_call', { function_call: 'auto' }],
  ['function_call', { function_call: 'none', tool_choice: 'auto' }],
  ['audio', { audio: { voice: 'x' } }],
  ['modalities', { modalities: ['text', 'audio'] }],
  ['prediction', { prediction: {} }],
  ['web_search_options', { web_search_options: {} }],
  ['verbosity', { verbosity: 'low' }],
  ['guided_json', { guided_json: {} }],
  ['temprature', { temprature: 1 }],
  ['top_logprobs', { top_logprobs: 3 }],
  ['stream_options', { stream_options: { include_usage: true } }],
  [
    'stream_options.continuous_usage_stats',
    { stream: true, stream_options: { continuous_usage_stats: true } },
  ],
  ['tool_choice', { tool_choice: 'required' }],
  ['temperature', { temperature: 'hot' }],
  [
    'messages.0.content.0.type',
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }] },
  ],
  ['messages', { messages: [] }],
])('chat completions refuse %s by name', async (param, fields) => {
  const asked = desk.service.requests.length;
  const { status, headers, body } = await post('/chat/completions', { model: 'any', messages, ...fields });
  expect(body).toMatchObject({ error: { param, type: 'invalid_request_error' } });
  expect(status).toBe(400);
  expect(headers.get('x-should-retry')).toBe('false');
  expect(desk.service.requests).toHaveLength(asked);
});

const tool = { type: 'function', name: 'f', parameters: {} };

test.each<[string, object]>([
  ['background', { background: true }],
  ['conversation', { conversation: 'c' }],
  ['prompt', { prompt: { id: 'p' } }],
  ['truncation', { truncation: 'auto' }],
  ['context_management', { context_management: [] }],
  ['max_tool_calls', { max_tool_calls: 1 }],
  ['top_logprobs', { top_logprobs: 1 }],
  ['n', { n: 2 }],
  ['text.verbosity', { text: { verbosity: 'low' } }],
  ['reasoning.effort', { reasoning: { effort: 'xhigh' } }],
  ['include', { include: ['message.output_text.logprobs'] }],
  ['tools.0.type', { tools: [{ type: 'web_search' }] }],
  ['tool_choice', { tool_choice: 'required' }],
  ['tool_choice', { tools: [tool], tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [] } }],
  [
    'tool_choice.tools.0',
    { tools: [tool], tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'mcp' }] } },
  ],
  ['stream_options', { stream_options: { include_obfuscation: false } }],
  ['previous_response_id', { previous_response_id: 'resp_x' }],
  [
    'input.0.content.0.type',
    { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] },
  ],
  [
    'input.1.type',
    { input: ['a', { type: 'computer_call' }].map((item) => (item === 'a' ? messages[0] : item)) },
  ],
  ['input.0.id', { input: [{ type: 'item_reference', id: 'msg_1_0' }] }],
  ['input.0.role', { input: [{ role: 'critic', content: 'x' }] }],
  ['input', { input: [] }],
  ['input.0', { input: ['a'] }],
  ['temprature', { temprature: 1 }],
])('responses refuse %s by name', async (param, fields) => {
  const asked = desk.service.requests.length;
  const { status, body } = await post('/responses', { model: 'any', input: 'a', ...fields });
  expect(body).toMatchObject({ error: { param, type: 'invalid_request_error' } });
  expect(status).toBe(400);
  expect(desk.service.requests).toHaveLength(asked);
});

const image = { type: 'image', source: { type: 'url', url: 'x' } };
const said = (role: string, ...content: object[]) => ({ messages: [{ role, content }] });
const jsonFormat = { type: 'json_schema', schema: {} };
const order = { name: 'order', input_schema: { type: 'object' } };

test.each<[string, object]>([
  ['messages', { messages: [] }],
  ['messages.0.content', said('user')],
  ['messages.0.content.1.type', said('user', { type: 'text', text: 'a' }, image)],
  ['messages.0.content.0.type', said('user', { type: 'document', source: {} })],
  [
    'messages.0.content.0.content.0.type',
    said('user', { type: 'tool_result', tool_use_id: 'x', content: [image] }),
  ],
  ['messages.0.content.0.tool_use_id', said('user', { type: 'tool_result' })],
  ['messages.0.content.0.type', said('assistant', { type: 'server_tool_use', id: 'x' })],
  ['messages.0.content.0.type', said('assistant', { type: 'redacted_thinking', data: 'x' })],
  ['messages.0.role', said('assistant', { type: 'text', text: 'The answer is' })],
  ['messages.0.role', said('critic', { type: 'text', text: 'a' })],
  ['system.0.type', { system: [image] }],
  ['tools.0.type', { tools: [{ type: 'web_search_20260318', name: 'web_search' }] }],
  ['tools.0.input_schema', { tools: [{ name: 'order' }] }],
  ['tools.0.allowed_callers', { tools: [{ ...order, allowed_callers: ['code_execution_20260521'] }] }],
  ['tools.0.input_examples', { tools: [{ ...order, input_examples: [{}] }] }],
  ['tool_choice', { tool_choice: { type: 'any' } }],
  ['tool_choice.type', { tools: [order], tool_choice: { type: 'some' } }],
  ['thinking.type', { thinking: { type: 'between_tools' } }],
  ['thinking.budget_tokens', { thinking: { type: 'enabled' } }],
  ['output_config.effort', { output_config: { effort: 'max' } }],
  ['output_config.effort', { output_config: { effort: 'low' }, thinking: { type: 'disabled' } }],
  ['output_format', { output_format: jsonFormat, output_config: { format: jsonFormat } }],
  ['context_management.edits.0', { context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] } }],
  ['container', { container: 'c' }],
  ['thread', { thread: { type: 'create' } }],
  ['mcp_servers', { mcp_servers: [{ type: 'url', url: 'x', name: 'x' }] }],
  ['speed', { speed: 'fast' }],
  ['stop_sequences', { stop_sequences: 'x' }],
  ['temprature', { temprature: 1 }],
])("messages refuse %s by name, in the form of Anthropic's errors", async (param, fields) => {
  const asked = desk.service.requests.length;
  for (const path of ['/messages', '/messages/count_tokens']) {
    const { status, headers, body } = await post(path, { model: 'any', max_tokens: 9, messages, ...fields });
    const error = { type: 'invalid_request_error', message: expect.stringContaining(`\`${param}\` `) };
    expect([status, body]).toMatchObject([400, { type: 'error', error }]);
    expect(headers.get('x-should-retry')).toBe('false');
  }
  expect(desk.service.requests).toHaveLength(asked);
});

test('fields of no effect, null and defaults are taken', async () => {
  const none = { prompt_cache_key: 'k', safety_identifier: 's', prompt_cache_retention: '24h', user: 'u' };
  const chat = {
    modalities: ['text'],
    n: 1,
    stop: null,
    tools: [],
    tool_choice: 'auto',
    service_tier: 'auto',
  };
  expect((await post('/chat/completions', { messages, ...none, ...chat })).status).toBe(200);
  const response = { background: false, truncation: 'disabled', conversation: null, store: true, tools: [] };
  expect((await post('/responses', { input: 'a', ...none, ...response })).status).toBe(200);
  const message = { system: '', tools: [], tool_choice: { type: 'none' }, thinking: null, speed: 'standard' };
  const hints = { cache_control: { type: 'ephemeral' }, diagnostics: { previous_message_id: null } };
  expect((await post('/messages', { messages, ...message, ...hints })).status).toBe(200);
});

test('a body that is not a request is refused as such', async () => {
  expect(await post('/chat/completions', '{')).toMatchObject({
    status: 400,
    body: { error: { code: 'invalid_json' } },
  });
  expect(await post('/responses', '[]')).toMatchObject({
    status: 400,
    body: { error: { code: 'invalid_body' } },
  });
  expect(await post('/messages', '{')).toMatchObject({
    status: 400,
    body: {
      type: 'error',
      error: { type: 'invalid_request_error', details: { error_code: 'invalid_json' } },
    },
  });
  expect(await post('/messages/batches', {})).toMatchObject({
    status: 404,
    body: { type: 'error', error: { type: 'not_found_error' } },
  });
  expect(await post('/embeddings', {})).toMatchObject({
    status: 404,
    body: { error: { code: 'unknown_path' } },
  });
});

test('an address that is not served says so, whatever key the request has', async () => {
  const { origin } = new URL(address.baseUrl);
  for (const headers of [{}, { 'x-goog-api-key': address.apiKey }]) {
    const gemini = await fetch(`${origin}/v1/models/a:generateContent`, {
      method: 'POST',
      headers,
      body: '{}',
    });
    expect(gemini.status).toBe(404);
    expect(await gemini.json()).toMatchObject({
      error: { message: expect.stringContaining('The paths are') },
    });
    // Ollama's clients show `error` as it is.
    const ollama = await fetch(`${origin}/api/chat`, { method: 'POST', headers, body: '{}' });
    expect(ollama.status).toBe(404);
    expect(await ollama.json()).toEqual({ error: expect.stringContaining('POST /api/chat is not served.') });
  }
});

test('a body that is too large is refused before it is read', async () => {
  const answered = Promise.withResolvers<number | undefined>();
  const sent = request(`${address.baseUrl}/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${address.apiKey}`, 'content-length': String(2 ** 30) },
  });
  sent.on('response', ({ statusCode }) => answered.resolve(statusCode));
  sent.on('error', answered.reject);
  sent.flushHeaders();
  expect(await answered.promise).toBe(413);
  sent.on('error', () => undefined);
  sent.destroy();
});

test('the globals of the process stay its own', () => {
  expect([globalThis.Request, globalThis.Response]).toEqual(globals);
});

test.each(['constructor', 'toString', 'hasOwnProperty'])(
  'the field `%s` is refused in plain words',
  async (field) => {
    const { status, body } = await post('/chat/completions', `{"messages":[],"${field}":1}`);
    expect([status, body]).toMatchObject([
      400,
      { error: { message: `\`${field}\` is not supported here. Unknown field.` } },
    ]);
  },
);

test('bytes that are not UTF-8, and bodies that are packed, are refused', async () => {
  const send = (body: Uint8Array, headers: Record<string, string> = {}) =>
    fetch(`${address.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${address.apiKey}`, ...headers },
      body,
    });
  const mangled = await send(Uint8Array.of(0x22, 0xff, 0x22));
  expect([mangled.status, await mangled.json()]).toMatchObject([400, { error: { code: 'invalid_json' } }]);
  const packed = await send(gzipSync('{}'), { 'content-encoding': 'gzip' });
  expect([packed.status, await packed.json()]).toMatchObject([
    415,
    { error: { code: 'unsupported_encoding' } },
  ]);
});

test('a body that comes in chunks of unknown number is read', async () => {
  for (const [path, fields] of [
    ['/chat/completions', { messages, model: 'any' }],
    ['/responses', { input: 'a' }],
    ['/messages', { messages }],
  ] as const) {
    const response = await fetch(`${address.baseUrl}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${address.apiKey}` },
      body: new Blob([JSON.stringify(fields)]).stream(),
      duplex: 'half',
    } as RequestInit);
    const answer = await response.json();
    expect([path, response.status, answer]).toEqual([path, 200, expect.not.objectContaining({ error: {} })]);
  }
});
