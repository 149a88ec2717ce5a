import fc from 'fast-check';
import { z } from 'zod';
import { chatCompletionRequestSchema } from '../../../src/contract/index.ts';
import type { JsonSchema } from '../../support/json-schema.ts';
import { valuesOf } from './schema-arbitrary.ts';

export type Body = Record<string, unknown>;

const vocabularySize = 512;
const longestReply = 4;

const word = fc.constantFrom(
  'hello',
  'cancel',
  'order 12',
  'ja',
  'はい',
  '🙂',
  '',
  '<|end|>',
  '{"a":1}',
  'a\nb',
);
const content = fc.oneof(
  word,
  fc.array(fc.record({ type: fc.constant('text'), text: word }), { minLength: 1, maxLength: 2 }),
);
/** Ids of plain text: bytes and merges. */
const textToken = fc.integer({ min: 0, max: 400 });
const toolName = fc.constantFrom('look', 'refund', 'cancel_order');
const parameters = fc.constantFrom<Body>(
  { type: 'object', properties: { order: { type: 'string', maxLength: 4 } }, required: ['order'] },
  { type: 'object', properties: {} },
  {
    type: 'object',
    properties: { n: { type: 'integer' }, deep: { type: 'array', items: { type: 'boolean' } } },
  },
);
const tool = fc.record({
  type: fc.constant('function'),
  function: fc.record({ name: toolName, parameters }),
});
const called = fc.record({ name: toolName, arguments: fc.constantFrom('{}', '{"order":"1"}', 'broken {') });
const call = fc.record({
  id: fc.constantFrom('call_1', 'call_2'),
  type: fc.constant('function'),
  function: called,
});

const message = fc.oneof(
  { arbitrary: fc.record({ role: fc.constantFrom('system', 'developer', 'user'), content }), weight: 5 },
  {
    arbitrary: fc.record({ role: fc.constant('user'), content, name: fc.constantFrom('alice', null) }),
    weight: 1,
  },
  { arbitrary: fc.record({ role: fc.constant('assistant'), content }), weight: 2 },
  {
    arbitrary: fc.record({
      role: fc.constant('assistant'),
      content: fc.constant(null),
      tool_calls: fc.array(call, { minLength: 1, maxLength: 2 }),
    }),
    weight: 1,
  },
  {
    arbitrary: fc.record({
      role: fc.constant('assistant'),
      content,
      reasoning_content: fc.constantFrom('because', '', null),
    }),
    weight: 1,
  },
  {
    arbitrary: fc.record({
      role: fc.constant('assistant'),
      token_ids: fc.array(textToken, { minLength: 1, maxLength: 5 }),
    }),
    weight: 1,
  },
  { arbitrary: fc.record({ role: fc.constant('assistant'), function_call: called }), weight: 1 },
  {
    arbitrary: fc.record({ role: fc.constant('tool'), content, tool_call_id: fc.constant('call_1') }),
    weight: 1,
  },
  {
    arbitrary: fc.record({ role: fc.constant('function'), content: word, name: fc.constant('look') }),
    weight: 1,
  },
  { arbitrary: fc.record({ role: fc.constantFrom('critic', 'ipython'), content }), weight: 1 },
);

const jsonSchema = fc.constantFrom<Body>(
  { type: 'object', properties: { answer: { enum: ['yes', 'no'] } }, required: ['answer'] },
  { type: 'integer' },
  { type: 'array', items: { type: 'string', maxLength: 3 }, maxItems: 2 },
  { anyOf: [{ type: 'null' }, { type: 'boolean' }] },
);
const json = fc.oneof(
  jsonSchema,
  jsonSchema.map((schema) => JSON.stringify(schema)),
);
const layout = fc.constantFrom<Body>(
  {},
  { disable_any_whitespace: true },
  { disable_any_whitespace: false },
  { whitespace_pattern: ' ?' },
  { disable_additional_properties: false },
  { disable_fallback: true, _backend: 'auto', _backend_was_auto: true },
);
const structuredOutputs = fc.oneof(
  fc.tuple(json, layout).map(([schema, fields]): Body => ({ json: schema, ...fields })),
  layout.map((fields): Body => ({ json_object: true, ...fields })),
  fc.constantFrom<Body>(
    { regex: '[a-c]{1,3}' },
    { regex: 'order \\d+', disable_fallback: true },
    { choice: ['stop', 'go', 'stop slowly'] },
    { grammar: 'root ::= "a" root | "b"' },
    { grammar: 'root ::= digit+\ndigit ::= [0-9]' },
    { json_object: false },
    {},
    {
      structural_tag: JSON.stringify({
        type: 'structural_tag',
        structures: [{ begin: '<f>', schema: { type: 'integer' }, end: '</f>' }],
        triggers: ['<f>'],
      }),
    },
  ),
);
const responseFormat = fc.oneof(
  fc.constantFrom<Body>({ type: 'text' }, { type: 'json_object' }),
  jsonSchema.map((schema): Body => ({ type: 'json_object', schema })),
  jsonSchema.map(
    (schema): Body => ({
      type: 'json_schema',
      json_schema: { name: 'answer', schema, strict: true },
    }),
  ),
);
const template = fc.constantFrom(
  '{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|assistant|>',
  "{{ messages[0].content | trim }}{{ extra or 'none' }}<|assistant|>",
);

/** Fields where the service requires more than the schema says. */
const overrides: Record<string, fc.Arbitrary<unknown>> = {
  messages: fc.array(message, { minLength: 1, maxLength: 4 }),
  logit_bias: fc.dictionary(
    fc.integer({ min: 0, max: vocabularySize - 1 }).map(String),
    fc.double({ min: -100, max: 100, noNaN: true }),
    { maxKeys: 4 },
  ),
  max_tokens: fc.integer({ min: 1, max: longestReply }),
  max_completion_tokens: fc.integer({ min: 1, max: longestReply }),
  min_tokens: fc.integer({ min: 0, max: longestReply }),
  n: fc.integer({ min: 1, max: 3 }),
  seed: fc.oneof(
    fc.integer(),
    fc.constantFrom(0, -9223372036854776000, 9223372036854776000, Number.MAX_SAFE_INTEGER),
  ),
  stop: fc.oneof(word.filter(Boolean), fc.array(word.filter(Boolean), { maxLength: 3 })),
  response_format: responseFormat,
  structured_outputs: structuredOutputs,
  tools: fc.uniqueArray(tool, { maxLength: 2, selector: (one) => one.function.name }),
  tool_choice: fc.oneof(
    fc.constantFrom('none', 'auto', 'required'),
    toolName.map((name) => ({ type: 'function', function: { name } })),
  ),
  stop_token_ids: fc.array(textToken, { maxLength: 3 }),
  allowed_token_ids: fc.array(textToken, { minLength: 1, maxLength: 20 }),
  truncate_prompt_tokens: fc.constantFrom(-1, 1, 5, 200, 9223372036854776000),
  prompt_logprobs: fc.integer({ min: 0, max: 5 }),
  bad_words: fc.array(word.filter(Boolean), { maxLength: 3 }),
  length_penalty: fc.double({ min: -2, max: 2, noNaN: true }),
  documents: fc.array(
    fc.oneof(
      fc.record({ title: word, text: word }),
      fc.record({ text: word, pages: fc.array(fc.integer(), { maxLength: 2 }) }),
    ),
    { maxLength: 2 },
  ),
  chat_template: template,
  chat_template_kwargs: fc.constantFrom<Body>(
    {},
    { extra: 'more' },
    { enable_thinking: false, list: ['a', 1] },
  ),
  mm_processor_kwargs: fc.constantFrom({}, null),
  kv_transfer_params: fc.constantFrom({}, null),
  priority: fc.constantFrom(0, null),
  request_id: fc.stringMatching(/^[a-z0-9-]{1,20}$/),
  logits_processors: fc.constantFrom<unknown>([], null),
  engine_xargs: fc.constantFrom<unknown>({}, null),
  cache_salt: fc.stringMatching(/^[a-z]{1,8}$/),
};

const { $defs, ...root } = z.toJSONSchema(chatCompletionRequestSchema, { io: 'input' });

/** The schema of a chat request, with the schemas it refers to. */
export const chatSchema: JsonSchema = root as JsonSchema;
export const chatDefinitions = ($defs ?? {}) as Record<string, JsonSchema>;

/** Chat requests that the interface allows, for one of these models. */
export function chatRequests(models: readonly string[]): fc.Arbitrary<Body> {
  const model = fc.constantFrom(...models, null);
  return valuesOf(chatSchema, {
    definitions: chatDefinitions,
    overrides: { ...overrides, model },
    sparsity: 6,
  }).map((value) => settle(value as Body));
}

/** Removes fields that contradict others, by the documented rules. */
function settle(request: Body): Body {
  const settled = Object.fromEntries(Object.entries(request).filter(([, value]) => value !== undefined));
  const drop = (...names: string[]) => {
    for (const name of names) delete settled[name];
  };
  const has = (name: string) => settled[name] !== undefined && settled[name] !== null;
  if (!has('max_tokens') && !has('max_completion_tokens')) settled.max_tokens = longestReply;
  const most = Number(settled.max_completion_tokens ?? settled.max_tokens);
  if (Number(settled.min_tokens ?? 0) > most) settled.min_tokens = most;
  if (settled.logprobs !== true) drop('top_logprobs');
  if (settled.logprobs === true || settled.return_token_ids === false) drop('return_token_logprobs');
  if (settled.stream !== true) drop('stream_options');
  if (settled.use_beam_search !== true) drop('length_penalty');
  if (has('response_format')) drop('structured_outputs');
  settleTools(settled, drop);
  settlePrompt(settled, drop);
  return settled;
}

function settleTools(settled: Body, drop: (...names: string[]) => void): void {
  const tools = Array.isArray(settled.tools) ? settled.tools : [];
  const choice = settled.tool_choice;
  if (tools.length === 0 && choice !== 'none' && choice !== 'auto') drop('tool_choice');
  if (typeof choice === 'object' && choice !== null && tools.length > 0) {
    const named = { type: 'function', function: { name: tools[0].function.name } };
    const { allowed_tools: allowed } = choice as Body;
    settled.tool_choice = allowed
      ? { type: 'allowed_tools', allowed_tools: { mode: (allowed as Body).mode, tools: [named] } }
      : named;
  }
  if (settled.tool_choice !== undefined && settled.tool_choice !== null && settled.tool_choice !== 'none')
    drop('function_call');
  // Free text may begin as a call does.
  const { structural_tag: tag } = (settled.structured_outputs ?? {}) as Body;
  if (tools.length > 0 && tag !== undefined) drop('structured_outputs');
}

function settlePrompt(settled: Body, drop: (...names: string[]) => void): void {
  const last = (settled.messages as Body[]).at(-1);
  const looksInside = String(settled.chat_template ?? '').includes('extra');
  if (!looksInside) drop('chat_template_kwargs');
  if (settled.continue_final_message !== true) return;
  if (last?.tool_calls || last?.function_call || looksInside) drop('continue_final_message');
  else {
    drop('reasoning_effort');
    if (settled.add_generation_prompt === true) settled.add_generation_prompt = false;
  }
}
